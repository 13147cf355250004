#include "cli/opening/key_maps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <utility>

#include "cli/terminal/text.h"
#include "espalier/base/escaped.h"
#include "espalier/base/json_text_writer.h"
#include "espalier/base/near_miss.h"
#include "espalier/base/real_text.h"
#include "espalier/key_map.h"
#include "espalier/map/adapter_settings.h"
#include "espalier/source.h"

namespace espalier::cli {
namespace {

// "p=64".
Result<std::map<std::string, double>> parse_numbers(const std::vector<std::string>& texts) {
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
    numbers[text.substr(0, at)] = value;
  }
  return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// For the map after another one: state and factors lie where that one wrote them, parameters have
// its numbers, and modules its alphas.
void follow(const MappedCheckpoint& mapped, LiftOptions& lift) {
  for (auto* const texts : {&lift.along, &lift.lora}) {
    for (std::string& text : *texts) {
      const std::size_t arrow = text.find(kAlongArrow);
      if (arrow == std::string::npos) continue;
      text = lift.plan.reverse ? text.substr(0, arrow) : text.substr(arrow + kAlongArrow.size());
    }
  }
  if (const auto& adapter = mapped.plan().adapter()) {
    lift.adapter.made = std::make_shared<const MapAdapter>(*adapter);
    lift.plan.sizes.erase("lora_alpha");
    lift.plan.numbers.erase("lora_alpha");
    lift.plan.sizes.erase("use_rslora");
  }
  lift.param_order.clear();
  for (const auto& group : mapped.plan().param_groups()) {
    lift.param_order.insert(lift.param_order.end(), group.begin(), group.end());
  }
}

}  // namespace

Result<std::string> read_text(const std::string& file, std::uint64_t most) {
  const auto source = open_source(file, Access::kRead);
  if (!source) {
    Error error = source.error();
    error.file.clear();
    if (error.code == ErrorCode::kNotARegularFile) {
      error.message = "this is not a regular file; write the text to a file, and name that";
    }
    return tl::unexpected<Error>(std::move(error));
  }
  const std::uint64_t size = (*source)->size();
  if (size > most) {
    return fail(ErrorCode::kLimitExceeded, "has more than the " + std::to_string(most) +
                                               " bytes that are read of such a file");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  const auto bytes = std::as_writable_bytes(std::span(text.data(), text.size()));
  if (auto ok = (*source)->copy({0, 0, size}, bytes); !ok) return propagate(ok);
  return text;
}

tl::expected<KeyMap, Failure> find_map(const std::string& name) {
  std::string text;
  const bool is_file = is_map_file(name);
  if (is_file) {
    auto read = read_text(name);
    if (!read) return about(name, read);
    text = std::move(*read);
  } else {
    for (const KnownMap& known : known_maps()) {
      if (known.name == name) text = known.text;
    }
    if (text.empty()) {
      NearMiss nearest(name);
      std::optional<std::string> meant;
      for (const KnownMap& known : known_maps()) {
        if (nearest.offer(known.name)) meant = known.name;
      }
      return refuse("--map", "there is no map called " + escaped(name) + did_you_mean(meant) +
                                 (meant ? " `espalier" : "; `espalier") +
                                 " map --list` prints those that there are, and the name of a "
                                 "file ends in .json");
    }
  }
  auto map = KeyMap::parse(text);
  if (!map) return about(is_file ? name : "--map " + name, map);
  return std::move(*map);
}

bool is_map_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

tl::expected<std::string, Failure> page_options(const MapOptions& options) {
  // A configuration that is wrong is an error here, and not in the page.
  auto lift = lift_options(options);
  if (!lift) return tl::unexpected(lift.error());
  const auto numbers = parse_numbers(options.sizes);
  if (!numbers) return fail_about("--set", numbers.error());
  JsonTextWriter json;
  json.begin_object();
  json.member("reverse", options.reverse);
  json.key("sizes");
  json.begin_object();
  for (const auto& [word, number] : *numbers) {
    json.key(word);
    json.raw(print_real(number));
  }
  json.end_object();
  const bool is_list = options.configs.size() > 1;
  if (!options.configs.empty()) json.key("config");
  if (is_list) json.begin_array();
  for (const std::string& config : options.configs) {
    auto text = read_text(config);
    if (!text) return about(config, text);
    json.raw(*text);
  }
  if (is_list) json.end_array();
  if (!lift->at.empty()) json.member("at", lift->at);
  if (lift->scales_moments) json.member("alongScaled", true);
  for (const auto& [name, texts] :
       {std::pair("along", &lift->along), std::pair("lora", &lift->lora),
        std::pair("paramOrder", &lift->param_order)}) {
    if (!texts->empty()) json.member(name, *texts);
  }
  json.end_object();
  return std::move(json).take();
}

tl::expected<LiftOptions, Failure> lift_options(const MapOptions& options) {
  LiftOptions lift;
  MapPlanOptions& plan = lift.plan;
  plan.reverse = options.reverse;
  for (const std::string& name : options.configs) {
    auto text = read_text(name);
    if (!text) return about(name, text);
    auto adapter = adapter_settings(*text);
    auto config = numbers_of(std::move(*text));
    if (!config) return about(name, config);
    if (adapter) lift.adapter = either(std::move(lift.adapter), std::move(*adapter));
    plan.config =
        plan.config ? either(std::move(plan.config), std::move(*config)) : std::move(*config);
  }
  auto numbers = parse_numbers(options.sizes);
  if (!numbers) return about("--set", numbers);
  if (auto ok = set_numbers(*numbers, plan); !ok) return about("--set", ok);
  lift.at = options.at;
  lift.along = options.along;
  lift.lora = options.lora;
  lift.scales_moments = options.along_scaled;
  if (!options.param_order.empty()) {
    auto text = read_text(options.param_order);
    if (!text) return about(options.param_order, text);
    lift.param_order = lines_of(*text);
  }
  return lift;
}

tl::expected<std::vector<MapStage>, Failure> map_through(const MapOptions& options,
                                                         std::vector<MapInput> inputs,
                                                         const MappedOptions& mapped_options) {
  std::vector<std::string> names = options.names;
  if (mapped_options.lift.plan.reverse) std::reverse(names.begin(), names.end());
  LiftOptions lift = mapped_options.lift;
  std::vector<KeyMap> maps;
  for (const std::string& name : names) {
    auto map = find_map(name);
    if (!map) return tl::unexpected(map.error());
    for (const std::string& word : given_words(*map)) lift.other_words.insert(word);
    maps.push_back(std::move(*map));
  }
  std::vector<MapStage> stages;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::string& name = names[i];
    const KeyMap& map = maps[i];
    MappedOptions own = mapped_options;
    own.lift = lift;
    // What comes before the last map is another tree.
    if (&name != &names.back()) own.like.reset();
    auto mapped = MappedCheckpoint::make(map, std::move(inputs), own);
    if (!mapped) {
      std::string file = std::exchange(mapped.error().file, {});
      if (names.size() > 1) {
        mapped.error().message = "--map " + escaped(name) + ": " + mapped.error().message;
      }
      return fail_about(std::move(file), std::move(mapped.error()));
    }
    inputs.clear();
    if (&name != &names.back()) {
      auto opened = mapped->open();
      if (!opened) return about("--map " + name, opened);
      inputs.push_back({std::move(*opened), {}, {}});
      follow(*mapped, lift);
    }
    stages.push_back({map, std::move(*mapped)});
  }
  return stages;
}

Result<CheckpointFile> open_through_map(const CheckpointFile& file, const MapOptions& options,
                                        const OpenFileOptions& open) {
  const auto said = [](Failure failure) {
    if (!failure.file.empty()) failure.error.message = failure.file + ": " + failure.error.message;
    return tl::unexpected<Error>(std::move(failure.error));
  };
  auto lift = lift_options(options);
  if (!lift) return said(lift.error());
  MappedOptions mapped_options;
  mapped_options.lift = std::move(*lift);
  mapped_options.targets.threads = open.threads.count;
  auto stages = map_through(options, {{file}}, mapped_options);
  if (!stages && !options.reverse) {
    mapped_options.lift.plan.reverse = true;
    auto reversed = map_through(options, {{file}}, mapped_options);
    if (reversed) stages = std::move(reversed);
  }
  if (!stages) return said(stages.error());
  for (const MapStage& stage : *stages) {
    if (!options.checks_data) break;
    if (auto ok = stage.mapped.check(); !ok) return propagate(ok);
  }
  return stages->back().mapped.open(open);
}

void add_map_options(CLI::App& command, MapOptions& options, const std::string& what) {
  command.option_defaults()->group("Key map");
  CLI::Option* const map =
      command
          .add_option("--map", options.names,
                      what +
                          ": one that `espalier map --list` prints, or a file that ends in .json. "
                          "Several are read one after the other")
          ->type_name("MAP")
          ->allow_extra_args(false);
  command.add_flag("--map-reverse", options.reverse, "Read the map from right to left")->needs(map);
  command
      .add_option("--set", options.sizes,
                  "The size of a word of the map, or a number that it computes with")
      ->type_name("WORD=NUMBER")
      ->allow_extra_args(false)
      ->needs(map);
  command
      .add_option("--config", options.configs,
                  "A JSON file with sizes by their names, such as a model's config.json, or "
                  "adapter_config.json; of several, the first that has a name counts")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->needs(map);
  command
      .add_option("--at", options.at,
                  "Where the parameters stand on both sides, such as model; what stands elsewhere "
                  "is kept")
      ->type_name("NAME")
      ->needs(map);
  command
      .add_option("--along", options.along,
                  "Where the state of an optimizer stands, with {param} (its number: {param#}) and "
                  "{slot}: 'optimizer.state.{param}.{slot}', or two such names with ' <-> ' "
                  "between them; none keeps state as it is")
      ->type_name("NAMES")
      ->allow_extra_args(false)
      ->needs(map);
  command
      .add_option("--lora", options.lora,
                  "The input is a LoRA adapter of what the map reads: peft, torchtune, mlx, names "
                  "such as '{module}.lora_{a|b}.weight', or two of them with ' <-> ' between them")
      ->type_name("NAMES")
      ->allow_extra_args(false)
      ->needs(map);
  command
      .add_flag("--along-scaled", options.along_scaled,
                "Scale the moments of parameters that the map scales")
      ->needs(map);
  command
      .add_option("--param-order", options.param_order,
                  "A file with the names of the parameters below --at, a line each, in the order "
                  "of an optimizer that numbers them: what {param#} of --along stands for")
      ->type_name("FILE")
      ->needs(map);
  command.option_defaults()->group("Options");
}

}  // namespace espalier::cli
