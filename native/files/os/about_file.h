// Errors of public functions name the file that they are about.
#ifndef ESPALIER_FILES_OS_ABOUT_FILE_H_
#define ESPALIER_FILES_OS_ABOUT_FILE_H_

#include <new>
#include <string>

#include "espalier/error.h"
#include "files/os/out_of_memory.h"

namespace espalier {

/// Says which file an error is about, unless it does so itself. `path` is empty for a file that has
/// none.
inline void name_file(Error& error, const std::string& path) noexcept {
  if (!error.file.empty()) return;
  try {
    error.file = path;
  } catch (const std::bad_alloc&) {
    // The error is more than its file.
  }
}

/// Runs the body of a public function. Its errors name the file, and a lack of memory is one.
template <class Body>
auto about_file(const std::string& path, const Body& body) -> decltype(body()) {
  auto result = [&]() -> decltype(body()) {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }();
  if (!result) name_file(result.error(), path);
  return result;
}

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_ABOUT_FILE_H_
