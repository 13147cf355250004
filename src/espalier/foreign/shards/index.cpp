#include "espalier/foreign/shards/index.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "espalier/base/utf8.h"
#include "espalier/key_path.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// The JSON reader recurses. An index has no use for more.
constexpr std::uint32_t kMaxIndexDepth = 256;
// A file of safetensors may begin with a brace, too, as the length of its header. But that length
// has zeros among its eight bytes, and JSON has none.
constexpr std::size_t kLengthBytes = 8;

std::string path_of(std::string_view tensor) {
  std::string path;
  append_path(path, KeyView::of(tensor), DigitMark::kNever);
  return path;
}

tl::unexpected<Error> bad(std::string_view message, std::string_view tensor) {
  return fail(ErrorCode::kForeignInvalid, message, Error::kNoOffset, path_of(tensor));
}

}  // namespace

bool looks_like_shard_index(ByteSpan front, std::uint64_t file_size) {
  const std::string_view text = as_text(front);
  if (!text.starts_with('{') || text.substr(0, kLengthBytes).find('\0') != text.npos) return false;
  if (text.find("\"weight_map\"") != text.npos) return true;
  // The map may begin after long metadata.
  const std::size_t first = text.find_first_not_of(" \t\r\n", 1);
  return front.size() < file_size && first != text.npos &&
         text.substr(first).starts_with("\"metadata\"");
}

Result<ShardIndex> parse_shard_index(std::string_view text, const Limits& limits) {
  auto json = JsonTree::parse(text, std::min(limits.depth, kMaxIndexDepth));
  if (!json) {
    if (json.error().code == ErrorCode::kInvalidArgument) {
      json.error() = {ErrorCode::kForeignInvalid,
                      Error::kNoOffset,
                      {},
                      "the index is damaged: it is not JSON; download it again"};
    }
    return propagate(json);
  }
  ShardIndex index{std::move(*json)};
  const auto members = index.json.root().members();
  const auto is_map = [](const JsonRef::Member& member) { return member.name == kWeightMap; };
  const auto map = std::find_if(members.begin(), members.end(), is_map);
  if (std::count_if(members.begin(), members.end(), is_map) != 1 || !map->value.is_object()) {
    return fail(ErrorCode::kForeignInvalid,
                "the index does not have one weight_map that says which file has which tensor");
  }
  std::map<std::string_view, std::uint32_t> numbers;
  index.entries.reserve(map->value.size());
  for (const auto& [tensor, value] : map->value.members()) {
    const auto file = value.text();
    if (!file || find_invalid_utf8(*file)) {
      return bad("weight_map does not name the file of a tensor with a text", tensor);
    }
    const auto next = static_cast<std::uint32_t>(index.files.size());
    const auto [number, is_new] = numbers.try_emplace(*file, next);
    index.entries.push_back({tensor, number->second});
    if (!is_new) continue;
    // The index comes from anywhere: "../../.ssh/id_rsa" must not be opened.
    if (!is_sibling_name(*file) || *file == kIndexKey) {
      return bad("the index names the file '" + std::string(*file) +
                     "'; files of a model must have plain names, in the folder of the index",
                 tensor);
    }
    index.files.push_back(*file);
  }
  return index;
}

}  // namespace espalier
