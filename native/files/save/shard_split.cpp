#include "files/save/shard_split.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "espalier/base/escaped.h"
#include "espalier/base/json_text.h"
#include "espalier/base/json_tree.h"
#include "espalier/base/real_text.h"
#include "espalier/foreign/shards/index.h"

namespace espalier {
namespace {

constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kIndexPart = ".safetensors.index";
constexpr std::string_view kIndexEnding = ".json";

// With the spaces of Python's json.dumps(indent=2), as Hugging Face's libraries write it.
class IndexWriter {
 public:
  explicit IndexWriter(std::string& out) : out_(out) {}

  void write(JsonRef value) {
    if (value.is_object()) {
      const auto members = value.members();
      open('{');
      for (const auto& [name, content] : members) {
        key(name);
        write(content);
      }
      return close('}');
    }
    if (value.is_array()) {
      open('[');
      for (const JsonRef element : value) {
        separate();
        write(element);
      }
      return close(']');
    }
    if (const auto text = value.text()) return append_json_string(out_, *text);
    if (const auto boolean = value.boolean()) {
      out_ += *boolean ? "true" : "false";
    } else if (const auto integer = value.int64()) {
      append_number(out_, *integer);
    } else if (const auto positive = value.uint64()) {
      append_number(out_, *positive);
    } else if (const auto real = value.real()) {
      out_ += print_real(*real);
    } else {
      out_ += "null";
    }
  }

  void open(char bracket) {
    out_ += bracket;
    is_empty_ = true;
    depth_ += 2;
  }
  void close(char bracket) {
    depth_ -= 2;
    if (!is_empty_) begin_line();
    out_ += bracket;
    is_empty_ = false;
  }
  void key(std::string_view name) {
    separate();
    append_json_string(out_, name);
    out_ += ": ";
  }
  void member(std::string_view name, std::string_view text) {
    key(name);
    append_json_string(out_, text);
  }
  // The members of a dict, but for those that are in `others`.
  void members_of(const Value& dict, const std::optional<JsonRef>& others) {
    for (std::size_t i = 0; i < dict.children().size(); ++i) {
      const std::string_view name = dict.keys()[i].view().text;
      const Value& value = dict.children()[i];
      if (others && others->member(name)) continue;
      if (const std::string* const text = value.as_string()) {
        member(name, *text);
      } else if (value.as_bool() || value.as_int64()) {
        key(name);
        out_ += value.as_bool() ? (*value.as_bool() ? "true" : "false")
                                : std::to_string(*value.as_int64());
      }
    }
  }
  void member(std::string_view name, std::uint64_t number) {
    key(name);
    append_number(out_, number);
  }

 private:
  void separate() {
    if (!is_empty_) out_ += ',';
    is_empty_ = false;
    begin_line();
  }
  void begin_line() {
    out_ += '\n';
    out_.append(depth_, ' ');
  }

  std::string& out_;
  std::size_t depth_ = 0;
  bool is_empty_ = false;
};

struct Sizes {
  std::uint64_t bytes = 0;
  std::uint64_t parameters = 0;
};

// Of tied tensors one counts.
Sizes sizes_of(std::span<const ShardTensor> tensors) {
  std::set<const void*> counted;
  Sizes sizes;
  for (const ShardTensor& tensor : tensors) {
    if (!counted.insert(tensor.tie).second) continue;
    sizes.bytes += tensor.bytes;
    sizes.parameters += tensor.elements;
  }
  return sizes;
}

using FileOfTensor = std::map<std::string_view, std::string_view>;

void write_weight_map(IndexWriter& json, const FileOfTensor& files) {
  json.key(kWeightMap);
  json.open('{');
  for (const auto& [tensor, file] : files) json.member(tensor, file);
  json.close('}');
}

FileOfTensor places_of(std::span<const ShardTensor> tensors, const ShardSplit& split) {
  FileOfTensor places;
  for (const ShardSplit::File& file : split.files) {
    for (const std::size_t number : file.tensors) places.emplace(tensors[number].name, file.name);
  }
  return places;
}

// "model" of "model.safetensors", and five digits, as huggingface_hub has it.
std::string shard_name(const std::string& single, std::size_t number, std::size_t count) {
  const auto digits = [](std::size_t value) {
    const std::string text = std::to_string(value);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return single.substr(0, single.size() - kShardEnding.size()) + "-" + digits(number) + "-of-" +
         digits(count) + std::string(kShardEnding);
}

// The numbers of the other tensors that are tied to the first ones.
std::map<std::size_t, std::vector<std::size_t>> twins_of(std::span<const ShardTensor> tensors) {
  std::map<const void*, std::size_t> first;
  std::map<std::size_t, std::vector<std::size_t>> twins;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [at, is_new] = first.emplace(tensors[i].tie, i);
    if (!is_new) twins[at->second].push_back(i);
  }
  return twins;
}

// The file of the last name of the index that begins so, for each way in which one begins.
using FileOfPrefix = std::map<std::string_view, std::string_view>;

std::string_view nearest_file(const FileOfPrefix& files, std::string_view name) {
  for (;;) {
    const auto found = files.find(name);
    if (found != files.end()) return found->second;
    const std::size_t dot = name.rfind('.');
    name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
}

}  // namespace

Result<ModelNames> model_names(const std::string& name) {
  if (name.ends_with(kShardEnding) && name.size() > kShardEnding.size()) {
    return ModelNames{name, name + ".index.json"};
  }
  const std::size_t at = name.find(kIndexPart);
  if (at != std::string::npos && at > 0 && name.ends_with(kIndexEnding)) {
    const std::size_t from = at + kIndexPart.size();
    if (from + kIndexEnding.size() <= name.size()) {
      const std::string variant = name.substr(from, name.size() - kIndexEnding.size() - from);
      if (variant.empty() || (variant.front() == '.' && variant.rfind('.') == 0)) {
        return ModelNames{name.substr(0, at) + variant + std::string(kShardEnding), name};
      }
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "this is not the name of a model in several files; end it in .safetensors, or in "
              ".safetensors.index.json");
}

ShardSplit split_by_size(std::span<const ShardTensor> tensors, std::uint64_t max_bytes,
                         const ModelNames& names, const Value& metadata) {
  const auto twins = twins_of(tensors);
  std::set<std::size_t> is_twin;
  for (const auto& [first, others] : twins) is_twin.insert(others.begin(), others.end());
  std::vector<std::vector<std::size_t>> shards;
  std::vector<std::size_t> current;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_twin.contains(i)) continue;
    if (tensors[i].bytes > max_bytes) {
      shards.push_back({i});
      continue;
    }
    if (tensors[i].bytes > max_bytes - filled) {
      shards.push_back(std::exchange(current, {}));
      filled = 0;
    }
    current.push_back(i);
    filled += tensors[i].bytes;
  }
  if (!current.empty() || shards.empty()) shards.push_back(std::move(current));
  ShardSplit split;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    std::vector<std::size_t>& shard = shards[number];
    for (std::size_t i = 0, alone = shard.size(); i < alone; ++i) {
      const auto others = twins.find(shard[i]);
      if (others != twins.end()) {
        shard.insert(shard.end(), others->second.begin(), others->second.end());
      }
    }
    split.files.push_back(
        {shards.size() == 1 ? names.single : shard_name(names.single, number + 1, shards.size()),
         std::move(shard)});
  }
  if (split.files.size() == 1) return split;
  const Sizes sizes = sizes_of(tensors);
  IndexWriter json(split.index);
  json.open('{');
  json.key("metadata");
  json.open('{');
  json.member("total_parameters", sizes.parameters);
  json.member("total_size", sizes.bytes);
  json.members_of(metadata, {});
  json.close('}');
  write_weight_map(json, places_of(tensors, split));
  json.close('}');
  split.index += '\n';
  return split;
}

Result<ShardSplit> split_like(std::span<const ShardTensor> tensors, std::string_view index_text,
                              const Limits& limits, const Value& more) {
  auto index = parse_shard_index(index_text, limits);
  if (!index) return propagate(index);
  FileOfTensor there;
  FileOfPrefix nearest;
  for (const auto& [tensor, number] : index->entries) {
    const std::string_view file = index->files[number];
    if (!file.ends_with(kShardEnding)) {
      return fail(ErrorCode::kForeignInvalid, "the index names the file " + escaped(file) +
                                                  ", and only .safetensors files are written");
    }
    there.emplace(tensor, file);
    nearest[""] = file;
    for (std::size_t at = tensor.find('.'); at != tensor.npos; at = tensor.find('.', at + 1)) {
      nearest[tensor.substr(0, at)] = file;
    }
  }
  const bool is_of_model = tensors.empty() || std::any_of(tensors.begin(), tensors.end(),
                                                          [&](const ShardTensor& tensor) {
                                                            return there.contains(tensor.name);
                                                          });
  if (!is_of_model || there.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the index has none of the names of this state; pass that of the same model");
  }
  ShardSplit split;
  std::map<std::string_view, std::size_t> numbers;
  for (const std::string_view file : index->files) {
    numbers.emplace(file, split.files.size());
    split.files.push_back({std::string(file), {}});
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto place = there.find(tensors[i].name);
    const std::string_view file =
        place == there.end() ? nearest_file(nearest, tensors[i].name) : place->second;
    split.files[numbers.at(file)].tensors.push_back(i);
  }
  std::erase_if(split.files, [](const ShardSplit::File& file) { return file.tensors.empty(); });
  const FileOfTensor places = places_of(tensors, split);
  const Sizes sizes = sizes_of(tensors);
  const auto metadata = index->json.root().member("metadata");
  const auto told = metadata ? metadata->member("total_size") : std::nullopt;
  const bool is_same = places == there && told && told->uint64() == sizes.bytes;
  IndexWriter json(split.index);
  json.open('{');
  json.key("metadata");
  json.open('{');
  bool has_size = false;
  if (metadata) {
    for (const auto& [name, value] : metadata->members()) {
      has_size = has_size || name == "total_size";
      if (!is_same && name == "total_size") {
        json.member(name, sizes.bytes);
      } else if (!is_same && name == "total_parameters") {
        json.member(name, sizes.parameters);
      } else {
        json.key(name);
        json.write(value);
      }
    }
  }
  if (!has_size) json.member("total_size", sizes.bytes);
  json.members_of(more, metadata);
  json.close('}');
  // In the order of the index, and then what is new.
  json.key(kWeightMap);
  json.open('{');
  for (const auto& [tensor, number] : index->entries) {
    if (places.contains(tensor)) json.member(tensor, index->files[number]);
  }
  for (const auto& [tensor, file] : places) {
    if (!there.contains(tensor)) json.member(tensor, file);
  }
  json.close('}');
  json.close('}');
  if (index_text.ends_with('\n')) split.index += '\n';
  return split;
}

std::vector<std::string> files_of_index(std::string_view index_text, const Limits& limits) {
  const auto index = parse_shard_index(index_text, limits);
  if (!index) return {};
  return {index->files.begin(), index->files.end()};
}

Result<std::string> rename_in_index(std::string_view index_text,
                                    const std::map<std::string, std::string, std::less<>>& renamed,
                                    const Limits& limits) {
  const auto index = parse_shard_index(index_text, limits);
  if (!index) return propagate(index);
  std::string text;
  IndexWriter json(text);
  json.open('{');
  for (const auto& [name, value] : index->json.root().members()) {
    json.key(name);
    if (name != kWeightMap) {
      json.write(value);
      continue;
    }
    json.open('{');
    for (const auto& [tensor, number] : index->entries) {
      const auto other = renamed.find(index->files[number]);
      json.member(tensor, other == renamed.end() ? index->files[number] : other->second);
    }
    json.close('}');
  }
  json.close('}');
  text += '\n';
  return text;
}

}  // namespace espalier
