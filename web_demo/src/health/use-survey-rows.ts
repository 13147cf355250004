// Filters and sorts the table of all tensors: at once if they are few, else in slices while the page goes on.
import type { TensorSurvey } from 'espalier'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { runInTurns, runNow } from '../data/slices'
import { surveyRows, type Sorting, type SurveyRows } from './survey-rows'

/** More are sorted in slices. */
const FEW = 2000
const NONE: SurveyRows = { rows: [], series: [] }

/** The rows, and whether newer ones are being made. @param length of `surveys`, which grows while tensors are read */
export function useSurveyRows(surveys: readonly TensorSurvey[], length: number, words: string, sorting: Sorting | undefined): readonly [SurveyRows, boolean] {
  const isFew = length <= FEW
  const few = useMemo(() => (isFew ? runNow(surveyRows(surveys, words, sorting)) : undefined), [surveys, isFew ? length : 0, words, sorting])
  const [many, setMany] = useState(NONE)
  const [isBusy, setBusy] = useState(false)
  const goOn = useRef(() => {})
  useEffect(() => {
    if (isFew) return
    const stop = new AbortController()
    let isRunning = false
    let hasMore = false
    const run = async (): Promise<void> => {
      hasMore = true
      if (isRunning) return
      isRunning = true
      setBusy(true)
      while (hasMore) {
        hasMore = false
        setMany(await runInTurns(surveyRows(surveys, words, sorting), stop.signal))
      }
      isRunning = false
      setBusy(false)
    }
    // It ends with an error only if it is aborted.
    goOn.current = () => void run().catch(() => {})
    goOn.current()
    return () => {
      goOn.current = () => {}
      stop.abort()
    }
  }, [isFew, surveys, words, sorting])
  useEffect(() => goOn.current(), [length])
  return [few ?? many, few === undefined && isBusy]
}
