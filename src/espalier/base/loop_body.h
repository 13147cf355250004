// For loops over millions of records that run once.
#ifndef ESPALIER_BASE_LOOP_BODY_H_
#define ESPALIER_BASE_LOOP_BODY_H_

/// Marks the function that is the body of such a loop. A WebAssembly engine compiles a function
/// quickly at first, and well once it has been called often; a loop that is already running goes on
/// with what it began with. As a function of its own, its body is compiled well after a few rounds.
#ifdef __EMSCRIPTEN__
#define ESPALIER_LOOP_BODY [[gnu::noinline]]
#else
#define ESPALIER_LOOP_BODY
#endif

#endif  // ESPALIER_BASE_LOOP_BODY_H_
