#include "key_maps.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "text.h"

#include "espalier/base/json_tree.h"
#include "espalier/map/known_maps.h"
#include "espalier/native/mapped_checkpoint.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, std::move(message)};
}

// The most that is read of a map or a configuration.
constexpr std::uintmax_t kMaxTextBytes = KeyMap::kMaxBytes;

Result<std::string> read_text(const std::string& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) return fail(ErrorCode::kFileNotFound, "cannot be read");
  if (size > kMaxTextBytes) {
    return fail(ErrorCode::kLimitExceeded, "has more than the " + std::to_string(kMaxTextBytes) +
                                               " bytes that are read of such a file");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// The number of a word like "text_config.head_dim" in a model's configuration.
std::optional<double> number_of(const JsonTree& json, std::string_view word) {
  JsonRef at = json.root();
  for (;;) {
    const std::size_t end = word.find('.');
    if (!at.is_object()) return std::nullopt;
    const auto member = at.member(word.substr(0, end));
    if (!member) return std::nullopt;
    at = *member;
    if (end == std::string_view::npos) break;
    word.remove_prefix(end + 1);
  }
  if (const auto integer = at.int64()) return static_cast<double>(*integer);
  return at.real();
}

tl::expected<std::function<std::optional<double>(const std::string&)>, Failure> read_config(
    const std::string& file) {
  constexpr std::uint32_t kMaxDepth = 32;
  auto text = read_text(file);
  if (!text) return about(file, text);
  const auto kept = std::make_shared<const std::string>(std::move(*text));
  auto json = JsonTree::parse(*kept, kMaxDepth);
  if (!json) return about(file, json);
  const auto tree = std::make_shared<const JsonTree>(std::move(*json));
  return [kept, tree](const std::string& word) { return number_of(*tree, word); };
}

// "p=64": a size if it is a whole number, and else a number for arithmetic.
Result<void> set_sizes(const std::vector<std::string>& texts, MapPlanOptions& plan) {
  std::map<std::string, double> numbers;
  for (const std::string& text : texts) {
    const std::size_t at = text.find('=');
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = at == std::string::npos
                            ? std::from_chars_result{end, std::errc::invalid_argument}
                            : std::from_chars(text.data() + at + 1, end, value);
    if (at == 0 || parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) {
      return fail(ErrorCode::kInvalidArgument,
                  escaped(text) + " is no word and its number, such as p=64");
    }
    const std::string word = text.substr(0, at);
    if (value >= 0 && value < 1e15 && std::floor(value) == value) {
      plan.sizes[word] = static_cast<std::uint64_t>(value);
    } else {
      numbers[word] = value;
    }
  }
  if (numbers.empty()) return {};
  plan.config = [numbers = std::move(numbers),
                 other = std::move(plan.config)](const std::string& word) {
    const auto found = numbers.find(word);
    if (found != numbers.end()) return std::optional(found->second);
    return other ? other(word) : std::nullopt;
  };
  return {};
}

}  // namespace

tl::expected<KeyMap, Failure> find_map(const std::string& name) {
  std::string text;
  const bool is_file = name.find('/') != std::string::npos || name.ends_with(".json");
  if (is_file) {
    auto read = read_text(name);
    if (!read) return about(name, read);
    text = std::move(*read);
  } else {
    for (const KnownMap& known : known_maps()) {
      if (known.name == name) text = known.text;
    }
    if (text.empty()) {
      return fail_about("--map", invalid("there is no map called " + escaped(name) +
                                         "; `espalier map --list` prints those that there are, and "
                                         "the name of a file ends in .json"));
    }
  }
  auto map = KeyMap::parse(text);
  if (!map) return about(is_file ? name : "--map " + name, map);
  return std::move(*map);
}

tl::expected<MapPlanOptions, Failure> plan_options(const MapOptions& options) {
  MapPlanOptions plan;
  plan.reverse = options.reverse;
  if (!options.config.empty()) {
    auto config = read_config(options.config);
    if (!config) return tl::unexpected(config.error());
    plan.config = std::move(*config);
  }
  if (auto ok = set_sizes(options.sizes, plan); !ok) return about("--set", ok);
  return plan;
}

Result<CheckpointFile> open_through_map(const CheckpointFile& file, const MapOptions& options,
                                        const OpenFileOptions& open) {
  const auto said = [](Failure failure) {
    if (!failure.file.empty()) failure.error.message = failure.file + ": " + failure.error.message;
    return tl::unexpected<Error>(std::move(failure.error));
  };
  const auto map = find_map(options.name);
  if (!map) return said(map.error());
  auto plan = plan_options(options);
  if (!plan) return said(plan.error());
  MappedOptions mapped_options;
  mapped_options.lift.plan = std::move(*plan);
  mapped_options.targets.threads = open.threads;
  auto mapped = MappedCheckpoint::make(*map, {{file}}, mapped_options);
  if (!mapped && !options.reverse) {
    mapped_options.lift.plan.reverse = true;
    auto reversed = MappedCheckpoint::make(*map, {{file}}, mapped_options);
    if (reversed) mapped = std::move(reversed);
  }
  if (!mapped) return propagate(mapped);
  return mapped->open(open);
}

void add_map_options(CLI::App& command, MapOptions& options, const std::string& what,
                     const char* reverse_flag) {
  command.option_defaults()->group("Key map");
  command
      .add_option("--map", options.name,
                  what + ": one that `espalier map --list` prints, or a file that ends in .json")
      ->type_name("MAP");
  command.add_flag(reverse_flag, options.reverse, "Read the map from right to left");
  command
      .add_option("--set", options.sizes,
                  "The size of a word of the map, or a number that it computes with")
      ->type_name("WORD=NUMBER")
      ->allow_extra_args(false);
  command
      .add_option("--config", options.config,
                  "A JSON file with sizes by their names, such as a model's config.json")
      ->type_name("FILE");
  command.option_defaults()->group("Options");
}

}  // namespace espalier::cli
