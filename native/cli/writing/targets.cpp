#include "cli/writing/targets.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/opening/urls.h"
#include "cli/writing/output_name.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

// What to say if a name may be the level of a `--compress 9`, which takes it only as --compress=9.
std::string level_hint(const std::vector<std::string>& names, const std::string& output,
                       const TargetOptions& options) {
  if (options.compress != "true") return {};
  for (const std::string& name : {names.back(), output}) {
    const bool is_level = name.size() == 1 && name >= "0" && name <= "9";
    if (is_level) return fmt::format("; if {0} is a level, write --compress={0}", name);
  }
  return {};
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

// The input's name with the ending of `format`. Only a known ending is replaced: step.1000 and
// step.2000 must stay apart.
std::string target_name(const std::string& input, SaveFormat format) {
  // shown_name() leaves nothing of a URL with an '@' in its query.
  const std::size_t query = is_url(input) ? input.find_first_of("?#") : std::string::npos;
  const fs::path name = fs::path(shown_name(input.substr(0, query))).filename();
  return (find_named_format(name) ? name.stem() : name).string() + "." +
         std::string(save_format_name(format));
}

tl::expected<std::vector<Conversion>, Failure> plan_into_folder(
    const std::vector<std::string>& inputs, const std::string& folder,
    const TargetOptions& options) {
  if (options.format.empty()) {
    return refuse(folder, "this is a folder, whose name selects no format; pass --to");
  }
  auto format = target_format(folder, options, Formats::kAll);
  if (!format) return about(folder, format);
  std::vector<Conversion> conversions;
  std::map<fs::path, std::string> inputs_by_file;
  for (const std::string& input : inputs) {
    if (auto ok = check_file_name(input, "input"); !ok) return about(input, ok);
    if (!is_url(input)) inputs_by_file.try_emplace(saved_file(input), input);
  }
  std::map<fs::path, std::string> inputs_by_target;
  for (const std::string& input : inputs) {
    const std::string target = (fs::path(folder) / target_name(input, *format)).string();
    const fs::path file = saved_file(target);
    const auto source = inputs_by_file.find(file);
    if (source != inputs_by_file.end() && source->second != input) {
      return refuse(target, "this file is the input " + shown_name(source->second) +
                                ", and would be replaced; convert into a different folder");
    }
    const auto [other, is_new] = inputs_by_target.try_emplace(file, input);
    if (!is_new) {
      return refuse(target, shown_name(other->second) + " and " + shown_name(input) +
                                " would both be written to this file; convert them into different "
                                "folders");
    }
    if (auto ok = check_target(target, options); !ok) return about(target, ok);
    conversions.push_back({{input, target}, *format});
  }
  return conversions;
}

}  // namespace

tl::expected<std::vector<Conversion>, Failure> plan_conversions(
    std::vector<std::string> names, const std::optional<std::string>& given,
    const TargetOptions& options) {
  const auto output = take_output(names, given);
  if (!output) return fail_about({}, output.error());
  if (auto ok = check_file_name(*output, "output"); !ok) return about(*output, ok);
  if (is_folder(*output)) return plan_into_folder(names, *output, options);
  if (names.size() > 1) {
    return refuse(*output, "this is not a folder, and " + std::to_string(names.size()) +
                               " inputs need one; make the folder first" +
                               level_hint(names, *output, options));
  }
  if (output->ends_with('/')) return refuse(*output, "there is no such folder; make it first");
  if (auto ok = check_target(*output, options); !ok) return about(*output, ok);
  auto format = target_format(*output, options, Formats::kAll);
  if (!format) return about(*output, format);
  return std::vector<Conversion>{{{names.front(), *output}, *format}};
}

}  // namespace espalier::cli
