// Helps engines optimise loops over millions of records that run once.
#ifndef ESPALIER_BASE_LOOP_BODY_H_
#define ESPALIER_BASE_LOOP_BODY_H_

/// Marks the function that is the body of such a loop. A WebAssembly engine compiles a function
/// quickly at first, and optimises it once it has been called often. A loop that is already running
/// keeps its slow code. A body that is a function of its own is optimised after a few rounds.
#ifdef __EMSCRIPTEN__
#define ESPALIER_LOOP_BODY [[gnu::noinline]]
#else
#define ESPALIER_LOOP_BODY [[gnu::always_inline]] inline
#endif

#endif  // ESPALIER_BASE_LOOP_BODY_H_
