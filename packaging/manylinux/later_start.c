/* Before 2.34, glibc left it to the program to run the constructors of its own globals, with a function that crt1.o passed
 * to __libc_start_main(). Today's crt1.o passes none, and the constructors would not run there. So the program passes this one,
 * which newer versions of glibc call as well, in place of their own. See stubs.py. */
typedef int Main(int count, char** arguments, char** environment);
typedef void Constructor(int count, char** arguments, char** environment);
typedef void Function(void);

extern Constructor* const __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor* const __init_array_end[] __attribute__((visibility("hidden")));
void _init(void);

static void run_constructors(int count, char** arguments, char** environment) {
  _init();
  for (Constructor* const* each = __init_array_start; each < __init_array_end; ++each) {
    (*each)(count, arguments, environment);
  }
}

int __real___libc_start_main(Main* run, int count, char** arguments, Constructor* begin, Function* end,
                             Function* end_of_loader, void* stack);

int __wrap___libc_start_main(Main* run, int count, char** arguments, Constructor* begin, Function* end,
                             Function* end_of_loader, void* stack) {
  (void)begin;
  return __real___libc_start_main(run, count, arguments, run_constructors, end, end_of_loader, stack);
}
