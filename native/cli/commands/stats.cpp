// espalier stats: minimum, maximum, mean and other statistics of tensors of any size.

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/several_files.h"
#include "cli/opening/urls.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/report/node_paths.h"
#include "espalier/tree/statistics.h"
#include "files/open/chunk_groups.h"

namespace espalier::cli {
namespace {

constexpr std::array kTitles = {"dtype", "shape", "min", "max", "mean",
                                "std",   "zeros", "nan", "inf"};

struct StatsOptions {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
};

using Summaries = std::unordered_map<std::uint32_t, Summary>;  // by tensor number

using Nodes = std::vector<std::uint32_t>;  // numbers of nodes with tensors

NodeRef node_of(const CheckpointFile& file, std::uint32_t number) {
  return {&file.checkpoint().catalog(), number};
}

// Groups of a tensor in one task: enough that scanning elements takes far longer than merging a
// summary, and few enough to keep all threads busy.
constexpr std::size_t kGroupsInTask = 8;

struct Task {
  TensorRef tensor;
  std::vector<ChunkGroup> groups;
};

std::vector<Task> tasks_of(const TensorRef& tensor) {
  std::vector<Task> tasks;
  for (const ChunkGroup& group : chunk_groups_of(tensor)) {
    if (tasks.empty() || tasks.back().groups.size() == kGroupsInTask) tasks.push_back({tensor, {}});
    tasks.back().groups.push_back(group);
  }
  return tasks;
}

// State of one thread.
struct Worker {
  ChunkGroupBuffer buffer;
  // By dtype: each takes memory that is worth reusing for the next task.
  std::map<DType, Statistics> statistics;
};

// One summary for each tensor, tied ones once. Tasks run in any order but merge in order of their
// number, so the result does not depend on the number of threads.
Result<Summaries> summarize_all(const CheckpointFile& file, const Nodes& nodes, unsigned threads) {
  Summaries summaries;
  std::vector<Task> tasks;
  std::uint64_t bytes = 0;
  for (const std::uint32_t number : nodes) {
    const TensorRef tensor = *node_of(file, number).tensor();
    if (!summaries.try_emplace(tensor.number()).second) continue;
    if (tensor.dtype() == DType::kOpaque) continue;
    for (Task& task : tasks_of(tensor)) tasks.push_back(std::move(task));
    bytes += tensor.is_placeholder() ? 0 : tensor.bytes();
  }
  ProgressBar progress("reading", bytes);
  std::vector<Summary> parts(tasks.size());
  std::vector<Worker> workers(thread_count(threads));
  auto done =
      parallel_for(tasks.size(), threads, [&](unsigned number, std::size_t i) -> Result<void> {
        const Task& task = tasks[i];
        Worker& worker = workers[number];
        const DType dtype = task.tensor.dtype();
        Statistics& statistics = worker.statistics.try_emplace(dtype, dtype).first->second;
        statistics.clear();
        for (const ChunkGroup& group : task.groups) {
          auto packed = read_group(file, task.tensor, group, worker.buffer);
          if (!packed) return propagate(packed);
          statistics.add(*packed);
          progress.add(packed->size());
        }
        parts[i] = statistics.summary();
        return {};
      });
  if (!done) return propagate(done);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    summaries[tasks[i].tensor.number()].merge(parts[i]);
  }
  return summaries;
}

bool has_numbers(const TensorRef& tensor) {
  return !tensor.is_placeholder() && tensor.dtype() != DType::kOpaque;
}

std::string number_text(const std::optional<Number>& number) {
  if (!number) return "-";
  if (const double* real = std::get_if<double>(&*number)) return fmt::format("{:.6g}", *real);
  return std::visit([](auto value) { return fmt::format("{}", value); }, *number);
}

void fill(Table::Cells& cells, const TensorRef& tensor, const Summary& summary) {
  cells = {dtype_text(tensor), shape_text(tensor.shape())};
  if (!has_numbers(tensor)) {
    cells.resize(kTitles.size(), "n/a");
    return;
  }
  const bool any = summary.finite > 0;
  cells.push_back(number_text(summary.min));
  cells.push_back(number_text(summary.max));
  cells.push_back(any ? fmt::format("{:.6g}", summary.mean) : "-");
  cells.push_back(any ? fmt::format("{:.6g}", summary.deviation()) : "-");
  for (const std::uint64_t count : {summary.zeros, summary.nans, summary.infinities}) {
    cells.push_back(std::to_string(count));
  }
}

void print_text(Output& out, const CheckpointFile& file, const Nodes& nodes,
                const Summaries& summaries) {
  using Align = Table::Align;
  std::vector<Table::Column> columns(kTitles.size(), {Align::kRight, Style::kPlain});
  columns[0] = {Align::kLeft, Style::kType};
  columns[1] = {Align::kLeft, Style::kPlain};
  Table table(std::move(columns), out.colors());
  Table::Cells cells(kTitles.begin(), kTitles.end());
  table.measure(cells);
  for (const auto& [number, summary] : summaries) {
    fill(cells, file.checkpoint().tensor(number), summary);
    table.measure(cells);
  }
  std::string line;
  table.append_titles(line, {kTitles.begin(), kTitles.end()}, "path");
  out.write(line);
  const NodePaths paths(file.checkpoint());
  for (const std::uint32_t number : nodes) {
    const NodeRef node = node_of(file, number);
    fill(cells, *node.tensor(), summaries.at(node.tensor()->number()));
    line.clear();
    table.append_row(line, cells, out.colors().paint(Style::kPath, path_text(paths.path(node))));
    out.write(line);
  }
}

void write_number(JsonWriter& json, std::string_view name, const std::optional<Number>& number) {
  json.key(name);
  if (number) {
    std::visit([&](auto value) { json.value(value); }, *number);
  } else {
    json.null();
  }
}

void write_summary(JsonWriter& json, const Summary& summary) {
  const bool any = summary.finite > 0;
  write_number(json, "min", summary.min);
  write_number(json, "max", summary.max);
  write_number(json, "mean", any ? std::optional<Number>(summary.mean) : std::nullopt);
  write_number(json, "std", any ? std::optional<Number>(summary.deviation()) : std::nullopt);
  json.member("finite", summary.finite);
  json.member("zeros", summary.zeros);
  json.member("nans", summary.nans);
  json.member("infinities", summary.infinities);
}

void write_json(JsonWriter& json, const StatsOptions& options, const CheckpointFile& file,
                const Nodes& nodes, const Summaries& summaries) {
  json.begin_object();
  json.member("file", shown_name(options.file));
  json.key("nodes");
  json.begin_array();
  const NodePaths paths(file.checkpoint());
  LongNames names;
  for (const std::uint32_t number : nodes) {
    const NodeRef node = node_of(file, number);
    const TensorRef tensor = *node.tensor();
    json.begin_object();
    write_node_members(json, paths.path(node), node, names);
    json.key("stats");
    if (has_numbers(tensor)) {
      json.begin_object();
      write_summary(json, summaries.at(tensor.number()));
      json.end_object();
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

Outcome run_on_file(const StatsOptions& options, Output& out, JsonWriter* json) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  auto nodes = select_nodes(*file, options.patterns, false);
  if (!nodes) return about(options.file, nodes);
  auto summaries = summarize_all(*file, *nodes, options.common.threads);
  if (!summaries) return about(options.file, summaries);
  if (json != nullptr) {
    write_json(*json, options, *file, *nodes, *summaries);
  } else {
    print_text(out, *file, *nodes, *summaries);
  }
  return ExitCode::kOk;
}

Outcome run_stats(const StatsOptions& options, Output& out) {
  return for_each_file(options.file, options.patterns, options.common, out,
                       [&](const std::string& file, const std::vector<std::string>& patterns,
                           Output& output, JsonWriter* json) {
                         StatsOptions one = options;
                         one.file = file;
                         one.patterns = patterns;
                         return run_on_file(one, output, json);
                       });
}

}  // namespace

void add_stats(CLI::App& app, Action& action) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* command = app.add_subcommand(
      "stats", "Minimum, maximum, mean, deviation, zeros, NaN and Inf of tensors");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  add_file_or_pattern_arguments(*command, options->patterns);
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Show what a key map makes of the file");
  options->common.map.checks_data = true;
  set_examples(*command,
               {"espalier stats run.espalier", "espalier stats run.espalier 'model/**/weight'"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_stats(*options, out); }; });
}

}  // namespace espalier::cli
