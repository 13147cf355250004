#include "espalier/foreign/shards/index.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

// Its keys become containers, in functions that call themselves.
Result<void> check_group(std::string_view path, const Limits& limits) {
  const auto keys = keys_of_group(path);
  if (!path.starts_with('/') || std::find(keys.begin(), keys.end(), "") != keys.end()) {
    return bad("the index has groups, and one is no path such as /layers/dense/vars", path);
  }
  if (keys.size() < std::min(limits.depth, kMaxIndexDepth)) return {};
  return fail(ErrorCode::kLimitExceeded,
              "a group of the index lies in more others than Limits::depth allows",
              Error::kNoOffset, path_of(path));
}

}  // namespace

std::vector<std::string_view> keys_of_group(std::string_view path) {
  std::vector<std::string_view> keys;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    keys.push_back(path.substr(0, path.find('/')));
    path.remove_prefix(keys.back().size());
  }
  return keys;
}

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
  const auto add = [&](std::string_view tensor, JsonRef value) -> Result<void> {
    const auto file = value.text();
    if (!file || find_invalid_utf8(*file)) {
      return bad("weight_map does not name the file of a tensor with a text", tensor);
    }
    const auto next = static_cast<std::uint32_t>(index.files.size());
    const auto [number, is_new] = numbers.try_emplace(*file, next);
    index.entries.push_back({tensor, number->second});
    if (!is_new) return {};
    // The index comes from anywhere: "../../.ssh/id_rsa" must not be opened.
    if (!is_sibling_name(*file) || *file == kIndexKey) {
      return bad("the index names the file '" + std::string(*file) +
                     "'; files of a model must have plain names, in the folder of the index",
                 tensor);
    }
    index.files.push_back(*file);
    return {};
  };
  const auto entries = map->value.members();
  std::set<std::string_view> groups;
  index.are_groups = entries.begin() != entries.end() && (*entries.begin()).name.starts_with('/');
  for (const auto& [tensor, value] : entries) {
    if (index.are_groups) {
      if (auto ok = check_group(tensor, limits); !ok) return propagate(ok);
      if (!groups.insert(tensor).second) return bad("the index has the same name twice", tensor);
    }
    if (!index.are_groups || !value.is_array() || value.size() == 0) {
      if (auto ok = add(tensor, value); !ok) return propagate(ok);
      continue;
    }
    for (const JsonRef file : value) {
      if (auto ok = add(tensor, file); !ok) return propagate(ok);
    }
  }
  return index;
}

}  // namespace espalier
