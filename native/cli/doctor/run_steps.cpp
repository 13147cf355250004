#include "cli/doctor/run_steps.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/opening/urls.h"
#include "espalier/base/escaped.h"
#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "files/open/checkpoint_folder.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRunNames = 100'000;

// What the trainers of transformers and peft call the model in the folder of a step.
constexpr const char* kModelNames[] = {"model.safetensors",         "model.safetensors.index.json",
                                       "pytorch_model.bin",         "pytorch_model.bin.index.json",
                                       "adapter_model.safetensors", "adapter_model.bin"};

// A name that ends in a number, apart from an ending of some format: what is before the number.
struct NumberedName {
  std::string before;
  std::uint64_t number = 0;
};

std::optional<NumberedName> numbered(std::string_view stem) {
  const std::size_t last = stem.find_last_not_of("0123456789");
  const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
  if (begin == stem.size() || (begin > 0 && stem[last] != '_' && stem[last] != '-')) {
    return std::nullopt;
  }
  // "model-00001-of-00002" is a part.
  if (stem.substr(0, begin).ends_with("-of-")) return std::nullopt;
  NumberedName name{std::string(stem.substr(0, begin)), 0};
  const auto [end, error] =
      std::from_chars(stem.data() + begin, stem.data() + stem.size(), name.number);
  return error == std::errc{} ? std::optional(std::move(name)) : std::nullopt;
}

bool is_checkpoint_name(const std::string& name) {
  const auto formats = all_formats();
  return std::any_of(formats.begin(), formats.end(),
                     [&](const FormatInfo* format) { return is_named_as(*format, name); });
}

// What to open for the folder of a step; empty if there is no checkpoint in it.
std::string file_in(const fs::path& folder) {
  if (file_to_open(folder)) return folder.string();
  std::error_code error;
  for (const char* const name : kModelNames) {
    if (fs::is_regular_file(folder / name, error)) return (folder / name).string();
  }
  return {};
}

}  // namespace

Result<RunSteps> find_steps(const std::string& run) {
  std::error_code error;
  fs::path folder(run);
  std::string begin;
  if (!fs::is_directory(folder, error)) {
    begin = folder.filename().string();
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  }
  if (is_url(run)) {
    return fail(ErrorCode::kInvalidArgument, "--run needs a folder on this machine");
  }
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::kFileNotFound,
                "there is no such folder; --run needs one, or a folder and the beginning of names "
                "in it");
  }
  RunSteps found;
  std::map<std::string, std::vector<RunStep>> series;
  std::size_t count = 0;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (++count > kMostRunNames) {
      return fail(ErrorCode::kLimitExceeded, "this folder has more than 100,000 names");
    }
    const fs::path path = entry->path();
    const std::string name = path.filename().string();
    if (!name.starts_with(begin)) continue;
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    if (!is_folder && !(fs::is_regular_file(path, ignored) && is_checkpoint_name(name))) continue;
    const auto step = numbered(is_folder ? name : path.stem().string());
    if (!step) {
      if (!is_folder) found.unnumbered.push_back(name);
      continue;
    }
    std::string file = is_folder ? file_in(path) : path.string();
    if (file.empty()) {
      found.skipped.push_back(name);
      continue;
    }
    series[step->before + "*" + (is_folder ? "/" : path.extension().string())].push_back(
        {step->number, name, std::move(file)});
  }
  if (error) return fail(ErrorCode::kIoError, "cannot list the folder: " + error.message());
  std::sort(found.skipped.begin(), found.skipped.end());
  std::sort(found.unnumbered.begin(), found.unnumbered.end());
  if (series.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "there are no steps here: no checkpoints whose names end in a number, such as "
                "step_100.espalier or checkpoint-500; without --run, one checkpoint is examined");
  }
  if (series.size() > 1) {
    std::string names;
    for (const auto& [name, steps] : series) names += (names.empty() ? "" : ", ") + name;
    const std::string& first = series.begin()->first;
    return fail(ErrorCode::kInvalidArgument,
                "there are several kinds of steps here: " + names +
                    "; name the beginning of those that you mean, such as " +
                    (folder / first.substr(0, first.find('*'))).string());
  }
  found.steps = std::move(series.begin()->second);
  std::sort(found.steps.begin(), found.steps.end(), [](const RunStep& a, const RunStep& b) {
    return std::pair(a.number, std::string_view(a.name)) <
           std::pair(b.number, std::string_view(b.name));
  });
  return found;
}

}  // namespace espalier::cli
