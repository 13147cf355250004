// espalier stats: minimum, maximum, mean and so on of tensors of any size.

#include <cmath>
#include <memory>
#include <unordered_map>

#include "command.h"
#include "json_writer.h"
#include "pieces.h"
#include "progress.h"
#include "selection.h"
#include "summary.h"
#include "text.h"
#include "values.h"
#include <fmt/format.h>

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
};

using Summaries = std::unordered_map<std::uint32_t, Summary>;  // by tensor number

struct Task {
  TensorRef tensor;
  Piece piece;
};

// One summary for each tensor, tied ones once. Pieces are worked on in any order and merged in
// theirs, so that the result is the same with any number of threads.
Result<Summaries> summarize_all(const CheckpointFile& file, const std::vector<SelectedNode>& nodes,
                                unsigned threads) {
  Summaries summaries;
  std::vector<Task> tasks;
  std::uint64_t bytes = 0;
  for (const SelectedNode& selected : nodes) {
    const TensorRef tensor = *selected.node.tensor();
    if (!summaries.try_emplace(tensor.number()).second) continue;
    if (tensor.dtype() == DType::kOpaque) continue;
    for (const Piece& piece : pieces_of(tensor)) tasks.push_back({tensor, piece});
    bytes += tensor.is_placeholder() ? 0 : tensor.bytes();
  }
  ProgressBar progress("reading", bytes);
  std::vector<Summary> parts(tasks.size());
  std::vector<PieceBuffer> pieces(thread_count(threads));
  std::vector<SummaryBuffer> buffers(thread_count(threads));
  auto done =
      parallel_for(tasks.size(), threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Task& task = tasks[i];
        auto packed = read_piece(file, task.tensor, task.piece, pieces[worker]);
        if (!packed) return propagate(packed);
        parts[i] = summarize(task.tensor.dtype(), *packed, buffers[worker]);
        progress.add(packed->size());
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

void add_row(Table& table, const SelectedNode& selected, const Summary& summary) {
  const TensorRef tensor = *selected.node.tensor();
  table.add(dtype_text(tensor));
  table.add(shape_text(tensor.shape()));
  if (has_numbers(tensor)) {
    const bool any = summary.finite > 0;
    table.add(number_text(summary.min));
    table.add(number_text(summary.max));
    table.add(any ? fmt::format("{:.6g}", summary.mean) : "-");
    table.add(any ? fmt::format("{:.6g}", summary.deviation()) : "-");
    for (const std::uint64_t count : {summary.zeros, summary.nans, summary.infinities}) {
      table.add(std::to_string(count));
    }
  } else {
    for (int i = 0; i < 7; ++i) table.add("n/a");
  }
  table.add(selected.path.empty() ? "(root)" : escaped(selected.path));
}

void print_text(Output& out, const std::vector<SelectedNode>& nodes, const Summaries& summaries) {
  using Align = Table::Align;
  std::vector<Align> columns(10, Align::kRight);
  columns[0] = columns[1] = columns[9] = Align::kLeft;
  Table table(std::move(columns));
  for (const char* title :
       {"dtype", "shape", "min", "max", "mean", "std", "zeros", "nan", "inf", "path"}) {
    table.add(title);
  }
  for (const SelectedNode& selected : nodes) {
    add_row(table, selected, summaries.at(selected.node.tensor()->number()));
  }
  std::string line;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    line.clear();
    table.append_row(line, row);
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

void print_json(Output& out, const Options& options, const std::vector<SelectedNode>& nodes,
                const Summaries& summaries) {
  JsonWriter json(out);
  json.begin_object();
  json.member("file", options.file);
  json.key("nodes");
  json.begin_array();
  for (const SelectedNode& selected : nodes) {
    const TensorRef tensor = *selected.node.tensor();
    json.begin_object();
    write_node_members(json, selected.path, selected.node);
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
  out.put('\n');
}

Outcome run(const Options& options, Output& out) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  auto nodes = select_nodes(*file, options.patterns, false);
  if (!nodes) return about(options.file, nodes);
  auto summaries = summarize_all(*file, *nodes, options.common.threads);
  if (!summaries) return about(options.file, summaries);
  if (options.common.json) {
    print_json(out, options, *nodes, *summaries);
  } else {
    print_text(out, *nodes, *summaries);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_stats(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "stats", "Minimum, maximum, mean, deviation, zeros, NaN and Inf of tensors");
  command->add_option("FILE", options->file, "A checkpoint")->required();
  add_pattern_arguments(*command, options->patterns);
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  command->footer("Example: espalier stats run.espalier 'model/**/weight'");
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
