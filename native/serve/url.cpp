#include "serve/url.h"

#include <cstddef>
#include <cstdlib>

#include "serve/libevent.h"

namespace espalier::serve {
namespace {

using Text = std::unique_ptr<char, FreeWith<std::free>>;

}  // namespace

std::string percent_encoded(std::string_view text) {
  const Text encoded(had(
      evhttp_uriencode(text.data(), static_cast<ev_ssize_t>(text.size()), /*space_as_plus=*/0)));
  return encoded.get();
}

std::string percent_decoded(std::string_view path) {
  std::size_t size = 0;
  const Text decoded(had(evhttp_uridecode(std::string(path).c_str(), /*decode_plus=*/0, &size)));
  return {decoded.get(), size};
}

}  // namespace espalier::serve
