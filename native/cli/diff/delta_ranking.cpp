#include "cli/diff/delta_ranking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/report/layer_path.h"

namespace espalier::cli {
namespace {

// A median of fewer tensors says little of what is usual.
constexpr std::size_t kFewestOfMedian = 4;

// All tensors of a layer.
struct Layer {
  std::string path;
  std::uint64_t tensors = 0;
  TensorDelta delta;
  TensorDelta single_numbers;

  void add(const ChangedTensor& tensor) {
    ++tensors;
    (tensor.tensor.elements() == 1 ? single_numbers : delta).merge(tensor.delta);
  }
  // Single numbers are counters, such as steps, and larger than weights: they count only where
  // there is nothing else.
  void finish() {
    if (delta.elements() == 0) delta = single_numbers;
  }
};

// The changed tensors of one part of the state.
struct Ranking {
  StatePart part = StatePart::kRest;
  std::vector<ChangedTensor> tensors;
  std::vector<Layer> layers;
  Layer total;
  /// Of the relative changes of its tensors; empty if there are few.
  std::optional<double> median;
};

bool has_numbers(const TensorDelta& delta) { return delta.elements() > 0; }

double changed_share(const TensorDelta& delta) {
  return static_cast<double>(delta.changed()) / static_cast<double>(delta.elements());
}

// The largest comes first. Norms leave out elements that are not comparable, so these come before
// all others.
std::pair<int, double> rank(const TensorDelta& delta, std::string_view order) {
  if (!has_numbers(delta)) return {0, 0};
  const int group = delta.not_comparable() > 0 ? 2 : 1;
  if (order == "norm") return {group, delta.delta_norm()};
  if (order == "changed") return {group, changed_share(delta)};
  if (order == "max") {
    return {group, to_double(delta.max_delta())};
  }
  // A tensor of zeros has no direction, and no cosine: 2 puts it behind the others.
  if (order == "cosine") return {group, -delta.cosine().value_or(2)};
  return {group, delta.relative()};
}

// Sorts what has the member `delta`; equal ones stay in their order.
template <class T>
void sort_by(std::vector<T>& rows, std::string_view order) {
  std::vector<std::pair<std::pair<int, double>, std::size_t>> ranks;
  ranks.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) ranks.push_back({rank(rows[i].delta, order), i});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<T> sorted;
  sorted.reserve(rows.size());
  for (const auto& [unused, i] : ranks) sorted.push_back(std::move(rows[i]));
  rows = std::move(sorted);
}

std::optional<double> median_of(const std::vector<ChangedTensor>& tensors) {
  std::vector<double> relatives;
  for (const ChangedTensor& tensor : tensors) {
    if (tensor.delta.changed() == 0 || tensor.tensor.elements() == 1) continue;
    const double relative = tensor.delta.relative();
    if (std::isfinite(relative)) relatives.push_back(relative);
  }
  if (relatives.size() < kFewestOfMedian) return std::nullopt;
  const auto middle = relatives.begin() + static_cast<std::ptrdiff_t>(relatives.size() / 2);
  std::nth_element(relatives.begin(), middle, relatives.end());
  return *middle > 0 ? std::optional(*middle) : std::nullopt;
}

Ranking ranking_of(std::vector<ChangedTensor> tensors, const NodePaths& paths,
                   const RankingOptions& options) {
  Ranking ranking;
  std::map<std::string, Layer, std::less<>> layers;
  for (const ChangedTensor& tensor : tensors) {
    const std::string path = paths.path(tensor.nodes.front());
    layers[std::string(layer_of(path))].add(tensor);
    ranking.total.add(tensor);
  }
  ranking.total.finish();
  ranking.median = median_of(tensors);
  for (auto& [path, layer] : layers) {
    layer.path = path;
    layer.finish();
    ranking.layers.push_back(std::move(layer));
  }
  ranking.tensors = std::move(tensors);
  if (options.order == "path") {
    std::stable_sort(ranking.tensors.begin(), ranking.tensors.end(),
                     [&](const ChangedTensor& a, const ChangedTensor& b) {
                       return paths.less(a.nodes.front(), b.nodes.front());
                     });
  } else {
    sort_by(ranking.tensors, options.order);
    sort_by(ranking.layers, options.order);
  }
  return ranking;
}

// The rankings of all parts that have changed tensors, weights first.
std::vector<Ranking> rankings_of(std::vector<ChangedTensor> tensors, const NodePaths& paths,
                                 const RankingOptions& options) {
  std::vector<Ranking> rankings;
  for (const StatePart part : kStateParts) {
    std::vector<ChangedTensor> members;
    for (ChangedTensor& tensor : tensors) {
      if (tensor.part == part) members.push_back(std::move(tensor));
    }
    if (members.empty()) continue;
    rankings.push_back(ranking_of(std::move(members), paths, options));
    rankings.back().part = part;
  }
  return rankings;
}

std::size_t rows_to_show(std::size_t rows, std::uint64_t top) {
  return top == 0 ? rows : static_cast<std::size_t>(std::min<std::uint64_t>(rows, top));
}

std::string percent(double share) {
  const double percent = share * 100;
  if (percent > 0 && percent < 0.01) return "<0.01%";
  // Never rounds up to all.
  return percent < 100 && percent > 99.99 ? ">99.99%" : fmt::format("{:.4g}%", percent);
}

// How often the relative change of a tensor is that of the part's median.
std::optional<double> times_median(const TensorDelta& delta, std::optional<double> median) {
  if (!median || !has_numbers(delta)) return std::nullopt;
  return delta.relative() / *median;
}

// The columns that not every table has.
struct Columns {
  std::optional<double> median;
  bool with_not_finite = false;
};

Table::Cells titles_of(const Columns& columns) {
  Table::Cells titles = {"relative"};
  if (columns.median) titles.push_back("x median");
  for (const char* title : {"||delta||", "||A||", "||B||", "max|delta|", "changed", "cosine"}) {
    titles.push_back(title);
  }
  if (columns.with_not_finite) titles.push_back("not finite");
  return titles;
}

Table::Cells cells_of(const TensorDelta& delta, const Columns& columns) {
  if (!has_numbers(delta)) return Table::Cells(titles_of(columns).size(), "n/a");
  const auto short_number = [](auto value) { return fmt::format("{:.4g}", value); };
  const auto real = [](auto value) { return static_cast<double>(value); };
  Table::Cells cells = {short_number(delta.relative())};
  if (const auto times = times_median(delta, columns.median)) {
    cells.push_back(fmt::format("{:.3g}", *times));
  }
  cells.push_back(short_number(delta.delta_norm()));
  cells.push_back(short_number(delta.before_norm()));
  cells.push_back(short_number(delta.after_norm()));
  cells.push_back(short_number(std::visit(real, delta.max_delta())));
  cells.push_back(percent(changed_share(delta)));
  const auto cosine = delta.cosine();
  cells.push_back(cosine ? fmt::format("{:.6f}", *cosine) : "-");
  if (columns.with_not_finite) cells.push_back(std::to_string(delta.not_comparable()));
  return cells;
}

// Prints rows with a title for their last column. `text_of` makes that column of a row.
template <class T, class TextOf>
void print_rows(Output& out, const std::vector<T>& rows, std::size_t shown,
                std::string_view last_title, const Columns& columns, TextOf text_of) {
  const Table::Cells titles = titles_of(columns);
  Table table(std::vector<Table::Column>(titles.size(), {Table::Align::kRight, Style::kPlain}),
              out.colors());
  table.measure(titles);
  for (std::size_t i = 0; i < shown; ++i) table.measure(cells_of(rows[i].delta, columns));
  std::string line;
  table.append_titles(line, titles, last_title);
  out.write(line);
  for (std::size_t i = 0; i < shown; ++i) {
    line.clear();
    table.append_row(line, cells_of(rows[i].delta, columns), text_of(rows[i]));
    out.write(line);
  }
}

void write_figures(JsonWriter& json, const TensorDelta& delta) {
  const auto member = [&](std::string_view name, auto value) {
    json.key(name);
    has_numbers(delta) ? json.value(value) : json.null();
  };
  member("elements", delta.elements());
  member("changed", delta.changed());
  member("changed_share", has_numbers(delta) ? changed_share(delta) : 0);
  member("not_comparable", delta.not_comparable());
  member("relative", delta.relative());
  member("delta_norm", delta.delta_norm());
  member("a_norm", delta.before_norm());
  member("b_norm", delta.after_norm());
  json.key("max_delta");
  if (delta.changed() > delta.not_comparable()) {
    std::visit([&](auto value) { json.value(value); }, delta.max_delta());
  } else {
    json.null();
  }
  json.key("cosine");
  const auto cosine = delta.cosine();
  cosine ? json.value(*cosine) : json.null();
}

// The row of a layer, of all layers of a part, or of all parts.
void write_layer(JsonWriter& json, const Layer& layer, std::optional<StatePart> part) {
  json.begin_object();
  json.member("path", layer.path);
  if (part) json.member("part", state_part_name(*part));
  json.member("tensors", layer.tensors);
  write_figures(json, layer.delta);
  json.end_object();
}

void write_tensors(JsonWriter& json, const Ranking& ranking, const NodePaths& paths,
                   std::uint64_t top) {
  for (std::size_t i = 0; i < rows_to_show(ranking.tensors.size(), top); ++i) {
    const ChangedTensor& tensor = ranking.tensors[i];
    json.begin_object();
    json.member("path", paths.path(tensor.nodes.front()));
    json.key("tied_paths");
    json.begin_array();
    for (std::size_t k = 1; k < tensor.nodes.size(); ++k) json.value(paths.path(tensor.nodes[k]));
    json.end_array();
    json.member("layer", layer_of(paths.path(tensor.nodes.front())));
    json.member("part", state_part_name(ranking.part));
    json.member("dtype", dtype_name(tensor.tensor.dtype()));
    json.key("shape");
    json.begin_array();
    for (const std::uint64_t length : tensor.tensor.shape()) json.value(length);
    json.end_array();
    write_figures(json, tensor.delta);
    json.key("times_median");
    const auto times = times_median(tensor.delta, ranking.median);
    times ? json.value(*times) : json.null();
    json.end_object();
  }
}

void print_part(Output& out, const Ranking& ranking, const NodePaths& paths, std::uint64_t top) {
  const Columns columns = {ranking.median, ranking.total.delta.not_comparable() > 0};
  const std::size_t shown = rows_to_show(ranking.tensors.size(), top);
  print_rows(out, ranking.tensors, shown, "tensor", columns, [&](const ChangedTensor& tensor) {
    const std::string path = path_text(paths.path(tensor.nodes.front()));
    const std::size_t tied = tensor.nodes.size() - 1;
    return out.colors().paint(Style::kPath, path) +
           (tied == 0 ? "" : fmt::format(" (and {} tied)", tied));
  });
  if (shown < ranking.tensors.size()) {
    out.print("and {} more, which --top 0 shows\n", ranking.tensors.size() - shown);
  }
  out.put('\n');
  // The last row is the sum of all.
  std::vector<Layer> rows = ranking.layers;
  rows.resize(rows_to_show(rows.size(), top));
  rows.push_back(ranking.total);
  print_rows(out, rows, rows.size(), "layer", columns, [&](const Layer& layer) {
    const bool is_total = &layer == &rows.back();
    return (is_total ? std::string("all layers")
                     : out.colors().paint(Style::kPath, path_text(layer.path))) +
           " (" + counted(layer.tensors, "tensor") + ")";
  });
  if (rows.size() <= ranking.layers.size()) {
    out.print("and {} more layers, which --top 0 shows\n", ranking.layers.size() + 1 - rows.size());
  }
  out.put('\n');
}

}  // namespace

void print_ranking(Output& out, std::vector<ChangedTensor> tensors, const NodePaths& paths,
                   const RankingOptions& options) {
  const std::vector<Ranking> rankings = rankings_of(std::move(tensors), paths, options);
  for (const Ranking& ranking : rankings) {
    if (rankings.size() > 1) {
      out.print("{}: {}\n", state_part_name(ranking.part),
                counted(ranking.tensors.size(), "changed tensor"));
    }
    print_part(out, ranking, paths,
               options.top.value_or(&ranking == &rankings[0] ? kTopInText : kTopOfOtherParts));
  }
}

void write_ranking(JsonWriter& json, std::vector<ChangedTensor> tensors, const NodePaths& paths,
                   const RankingOptions& options) {
  Layer total;
  for (const ChangedTensor& tensor : tensors) total.add(tensor);
  total.finish();
  const std::vector<Ranking> rankings = rankings_of(std::move(tensors), paths, options);
  const std::uint64_t top = options.top.value_or(0);
  json.key("stat");
  json.begin_object();
  json.member("sort", options.order);
  json.key("tensors");
  json.begin_array();
  for (const Ranking& ranking : rankings) write_tensors(json, ranking, paths, top);
  json.end_array();
  json.key("layers");
  json.begin_array();
  for (const Ranking& ranking : rankings) {
    for (std::size_t i = 0; i < rows_to_show(ranking.layers.size(), top); ++i) {
      write_layer(json, ranking.layers[i], ranking.part);
    }
  }
  json.end_array();
  json.key("parts");
  json.begin_array();
  for (const Ranking& ranking : rankings) write_layer(json, ranking.total, ranking.part);
  json.end_array();
  json.key("total");
  write_layer(json, total, std::nullopt);
  json.end_object();
}

}  // namespace espalier::cli
