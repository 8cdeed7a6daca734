"""The fixtures of all tests, those of the core and those of the labs."""

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.shop_fixtures",
    "tests.support.stack_fixtures",
    "tests.support.browser_fixtures",
]
