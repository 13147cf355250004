import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { planRequests, type ByteRange, type PlanLimits } from '../src/fetch/plan.js'

const limits: PlanLimits = { maxGap: 16384, maxRequestBytes: 2 ** 23 }
const at = (offset: number, length: number): ByteRange => ({ offset, length })
const plan = (ranges: ByteRange[], over: Partial<PlanLimits> = {}) =>
  planRequests(ranges, { ...limits, ...over }).map(({ begin, end }) => [begin, end])

describe('planRequests', () => {
  it('asks for nothing when nothing is needed', () => assert.deepEqual(plan([]), []))
  it('joins neighbours', () => assert.deepEqual(plan([at(10, 10), at(20, 10)]), [[10, 30]]))
  it('joins what overlaps', () => assert.deepEqual(plan([at(10, 10), at(12, 2), at(15, 10)]), [[10, 25]]))
  it('fetches small gaps along', () => assert.deepEqual(plan([at(0, 10), at(8000, 10)]), [[0, 8010]]))
  it('does not fetch long gaps along', () => {
    assert.deepEqual(plan([at(0, 1e6), at(1e6 + 16385, 1e6)]), [[0, 1e6], [1e6 + 16385, 2e6 + 16385]])
    assert.deepEqual(plan([at(0, 1e6), at(1e6 + 16384, 1e6)]), [[0, 2e6 + 16384]])
  })
  it('spends what it may on the shortest gaps', () => {
    assert.deepEqual(plan([at(0, 10), at(5010, 10), at(9020, 10), at(13030, 10)]), [[0, 10], [5010, 13040]])
  })
  it('cuts between ranges', () => {
    assert.deepEqual(plan([at(0, 60), at(60, 60), at(120, 30)], { maxRequestBytes: 100 }), [[0, 60], [60, 150]])
  })
  it('cuts a long range into equal pieces', () => {
    assert.deepEqual(plan([at(5, 250), at(255, 10)], { maxRequestBytes: 100 }), [[5, 89], [89, 173], [173, 265]])
  })
  it('does not fetch a gap where it cuts', () => {
    assert.deepEqual(plan([at(0, 90), at(95, 90)], { maxRequestBytes: 100 }), [[0, 90], [95, 185]])
  })
  it('fetches nothing twice where it cuts', () => {
    assert.deepEqual(plan([at(0, 90), at(50, 90), at(60, 10)], { maxRequestBytes: 100 }), [[0, 90], [90, 140]])
  })

  it('covers all, wastes at most 5 % or 8 KiB, and merges whatever touches', () => {
    let state = 1
    const random = (below: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    for (let round = 0; round < 400; round++) {
      const scale = 10 ** (1 + random(6))
      const maxRequestBytes = 1 + random(scale * 4)
      const maxGap = random(2) * random(20_000)
      const ranges: ByteRange[] = []
      let position = random(2) * 2 ** 33
      for (let i = 1 + random(40); i > 0; i--) {
        const length = 1 + random(scale)
        ranges.push(at(position, length))
        position += random(3) === 0 ? random(length) : length + random(2) * random(20_000)
      }
      const requests = planRequests(ranges, { maxGap, maxRequestBytes })
      // The union of the ranges, as runs that do not touch.
      const runs: { begin: number; end: number }[] = []
      for (const { offset, length } of ranges) {
        const last = runs.at(-1)
        if (last && offset <= last.end) last.end = Math.max(last.end, offset + length)
        else runs.push({ begin: offset, end: offset + length })
      }
      const total = (spans: readonly { begin: number; end: number }[]) => spans.reduce((sum, { begin, end }) => sum + end - begin, 0)
      const needed = total(runs)
      const fetched = total(requests)
      const told = `round ${round}: ${JSON.stringify({ ranges, requests, maxGap, maxRequestBytes })}`
      for (const [i, { begin, end }] of requests.entries()) {
        assert.ok(end > begin && end - begin <= maxRequestBytes, told)
        assert.ok(i === 0 || begin >= requests[i - 1]!.end, told)
      }
      for (const run of runs) {
        const overlap = requests.reduce((sum, { begin, end }) => sum + Math.max(Math.min(end, run.end) - Math.max(begin, run.begin), 0), 0)
        assert.equal(overlap, run.end - run.begin, told)
      }
      assert.ok(fetched - needed <= Math.max(needed / 20, 8192), told)
      // One request for each run, and those that cuts add.
      const cuts = requests.filter(({ begin }, i) => i > 0 && requests[i - 1]!.end === begin)
      assert.ok(requests.length - cuts.length <= runs.length, told)
      if (requests.at(-1)!.end - requests[0]!.begin <= maxRequestBytes) assert.equal(cuts.length, 0, told)
    }
  })
})
