// What filters, sorts and folds: loaded when it is first used.
export { Arranger } from './arranger'
export { MatchRows } from './match-rows'
export { search } from './search'
