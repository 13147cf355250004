// Ends a program that does what it must not, after a line that says what. Only checks of debug and
// hardened builds do, and value() where exceptions are off; never anything that a file can cause.
#include <cstdio>
#include <cstdlib>

#include "espalier/error.h"

namespace espalier {

void detail::end_on(const Error& error) {
  std::fprintf(stderr, "espalier: the value of a result that failed was used: %s\n",
               error.describe().c_str());
  std::abort();
}

void detail::end_of_dead_handle() {
  std::fputs("espalier: a NodeRef or TensorRef was used after the last copy of its checkpoint\n",
             stderr);
  std::abort();
}

}  // namespace espalier
