// The texts of slow motion and of its columns, English and Chinese: one row for each.

import { filled } from "./language.js";

const TEXTS = {
  title: ["Slow motion", "慢动作"],
  counter: ["counter", "计数器"],
  ledger: ["ledger", "账本"],
  lostSoFar: ["lost so far", "已丢失"],
  queue: ["waiting", "等待中"],
  token: ["highest token", "最高防护令牌"],
  record: ["Record", "记录"],
  speed: ["Speed", "速度"],
  play: ["Play", "播放"],
  pause: ["Pause", "暂停"],
  back: ["One event back", "后退一个事件"],
  forward: ["One event forward", "前进一个事件"],
  lost: ["Go to the first lost update", "转到第一次丢失更新"],
  noLost: ["No update was lost", "没有丢失更新"],
  refusedMark: ["Go to the first refused write", "转到第一次被拒绝的写入"],
  scrub: ["Time in the record", "记录中的时间"],
  keys: ["Space plays and pauses; the arrow keys go one event back or forward; A and B to the next event at the first or second instance.", "空格键播放和暂停；方向键后退或前进一个事件；A 和 B 前进到第一个或第二个实例的下一个事件。"],
  clock: ["{at} of {end} · event {number} of {count}", "{at} / {end} · 事件 {number} / {count}"],
  close: ["Close", "关闭"],
  empty: ["This record has no critical sections, so nothing can be played.", "这份记录没有临界区，无法播放。"],
  more: ["+{count}", "+{count}"],
  waiting: ["{count} waiting", "{count} 个在等待"],
  onLine: ["{sentence}, line {line}", "{sentence}，第 {line} 行"],
  at: ["{buyer} at {instance}: {what}", "{buyer}（{instance}）：{what}"],
  locked: ["is inside", "进入临界区"],
  lockedToken: ["is inside with token {token}", "进入临界区，令牌 {token}"],
  read: ["read {value}", "读到 {value}"],
  decided: ["is decided by the read", "读取后已有结果"],
  think: ["thinks", "思考"],
  write: ["writes {value}", "写入 {value}"],
  script: ["sends its script", "发送脚本"],
  wrote: ["wrote {value}: sold", "已写入 {value}：售出"],
  lostUpdate: ["wrote {value} over {was}, lost updates: {count}", "写入 {value}，覆盖了 {was}，丢失更新：{count}"],
  lostShort: ["wrote {value}: lost update", "写入 {value}：丢失更新"],
  refusedShort: ["refused", "被拒绝"],
  sold: ["sold, {value} left", "售出，剩余 {value}"],
  sold_out: ["sold out", "售罄"],
  retry: ["was overtaken, tries again", "被别的写入抢先，重试"],
  in_doubt: ["got no answer to its write", "写入没有得到响应"],
  refused: ["refused: {why}", "被拒绝：{why}"],
  left: ["leaves", "离开"],
  fenced_off: ["a higher token was here before", "更大的令牌已先写入"],
  hold_lost: ["its lock was lost", "锁已丢失"],
  session_lost: ["its etcd session was lost", "etcd 会话已丢失"],
  sale_reset: ["the sale was reset", "销售已重置"],
  plain: ["enters|reads the stock|thinks|writes the stock|leaves", "进入|读取库存|思考|写入库存|离开"],
  plainFile: ["This record does not have the guard's lines.", "这份记录没有保存守卫的代码行。"],
};

// A function from a key of the table, and values for its braces, to the text in the language of the page.
export function speaker(table = TEXTS, language = document.documentElement.lang) {
  const column = language.startsWith("zh") ? 1 : 0;
  return (key, values = {}) => filled(table[key][column], values);
}
