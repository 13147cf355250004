#include "serve/token.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif
#include <unistd.h>

#include "files/os/posix.h"

namespace espalier::serve {

Result<std::string> make_token() {
  std::array<unsigned char, 16> bytes = {};
  // All systems have getentropy(); on Linux it uses getrandom().
  if (::getentropy(bytes.data(), bytes.size()) != 0) {
    return fail_with_errno(errno, "get random numbers for the URL");
  }
  std::string token;
  for (const unsigned char byte : bytes) fmt::format_to(std::back_inserter(token), "{:02x}", byte);
  return token;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ unsigned { static_cast<unsigned char>(b[i]) };
  }
  return difference == 0;
}

}  // namespace espalier::serve
