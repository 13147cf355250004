#include "espalier/health/layers.h"

#include <charconv>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

constexpr std::size_t kMostDigits = 9;
// Numbers of a path that may be those of layers: a hostile path has hundreds.
constexpr std::size_t kMostNumbersOfPath = 8;

bool is_digit_of_layer(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void add_layer_parts(std::string_view path, std::uint32_t tensor, std::vector<LayerPart>& parts) {
  std::size_t end = 0;
  for (std::size_t numbers = 0; numbers < kMostNumbersOfPath; ++numbers) {
    std::size_t begin = end;
    // An escape has a digit that is none of the name: "a~15" is "a/5".
    while (begin < path.size() && !is_digit_of_layer(path[begin]))
      begin += path[begin] == '~' ? 2 : 1;
    if (begin >= path.size()) return;
    end = begin;
    while (end < path.size() && is_digit_of_layer(path[end])) ++end;
    if (end - begin > kMostDigits) continue;
    LayerPart& part = parts.emplace_back();
    part.stack = hash64(as_bytes(path.substr(0, begin)));
    part.rest = hash64(as_bytes(path.substr(end)));
    std::from_chars(path.data() + begin, path.data() + end, part.layer);
    part.tensor = tensor;
    part.begin = static_cast<std::uint32_t>(begin);
    part.end = static_cast<std::uint32_t>(end);
  }
}

}  // namespace espalier
