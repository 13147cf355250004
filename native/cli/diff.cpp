// espalier diff: what changed between two checkpoints.

#include <algorithm>
#include <map>
#include <memory>

#include "command.h"
#include "data_diff.h"
#include "json_writer.h"
#include "structure_diff.h"
#include "text.h"
#include "values.h"
#include <fmt/format.h>

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxShownBytes = 64;

struct Options {
  CommonOptions common;
  std::string a;
  std::string b;
  std::vector<std::string> patterns;
  bool no_metadata = false;
  bool state_only = false;
};

// All that is to be printed.
struct Report {
  std::vector<Difference> state;
  std::vector<Difference> metadata;
  /// What is known of the data of the kData differences in `state`, by node number in A.
  std::map<std::uint32_t, DataDiff> data;

  bool is_equal() const { return state.empty() && metadata.empty(); }
};

// Equal digests mean equal state, but not the same order of keys and the same ties.
bool have_equal_digests(const CheckpointFile& a, const CheckpointFile& b) {
  const auto& digest_a = a.checkpoint().catalog().tree_digest();
  const auto& digest_b = b.checkpoint().catalog().tree_digest();
  return digest_a && digest_b && *digest_a == *digest_b;
}

// Compares the tensors of all kData differences, tied ones once, and drops those that turn out to
// be equal.
tl::expected<void, Failure> compare_all_data(const NamedFile& a, const NamedFile& b,
                                             unsigned threads, Report& report) {
  std::vector<TensorPair> pairs;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> numbers;
  const auto number_of = [&](const Difference& difference) {
    const TensorPair pair(*difference.a->tensor(), *difference.b->tensor());
    const auto [at, is_new] =
        numbers.try_emplace({pair.first.number(), pair.second.number()}, pairs.size());
    if (is_new) pairs.push_back(pair);
    return at->second;
  };
  for (const Difference& difference : report.state) {
    if (difference.change == Change::kData) number_of(difference);
  }
  auto diffs = compare_data(a, b, pairs, threads);
  if (!diffs) return tl::unexpected<Failure>(std::move(diffs.error()));
  std::erase_if(report.state, [&](const Difference& difference) {
    if (difference.change != Change::kData) return false;
    const DataDiff& diff = (*diffs)[number_of(difference)];
    if (!diff.bytes_differ) return true;
    report.data[difference.a->number()] = diff;
    return false;
  });
  return {};
}

// Another node with the same tensor as the one at `path`; null if there is none.
const std::string* partner(const Ties& ties, const TensorRef& tensor, std::string_view path) {
  for (const std::string& other : ties.paths(tensor)) {
    if (other != path) return &other;
  }
  return nullptr;
}

std::string tie_text(const Ties& ties, const TensorRef& tensor, std::string_view path) {
  const std::string* other = partner(ties, tensor, path);
  return other != nullptr ? "tied to " + escaped(*other) : "not tied";
}

std::string data_text(const TensorRef& tensor, const DataDiff& diff) {
  if (tensor.dtype() == DType::kOpaque) return "bytes differ";
  if (diff.differing == 0)
    return "bytes differ, but no element does (signs of zeros, kinds of NaN)";
  std::string text =
      fmt::format("{} of {} differ", diff.differing, format_count(tensor.elements(), "element"));
  if (diff.differing > diff.not_comparable) {
    text += ", max |delta| " +
            std::visit([](auto value) { return fmt::format("{}", value); }, diff.max_delta);
  }
  if (diff.not_comparable > 0) {
    text += fmt::format(", {} of them not finite", diff.not_comparable);
  }
  return text;
}

class TextPrinter {
 public:
  TextPrinter(Output& out, const CheckpointFile& a, const CheckpointFile& b)
      : out_(out),
        totals_a_(a.checkpoint()),
        totals_b_(b.checkpoint()),
        ties_a_(a.checkpoint()),
        ties_b_(b.checkpoint()) {}

  void print(const Difference& difference, std::string_view prefix,
             const std::map<std::uint32_t, DataDiff>& data) {
    const char sign = difference.change == Change::kOnlyInA   ? '-'
                      : difference.change == Change::kOnlyInB ? '+'
                                                              : '~';
    const std::string path = difference.path.empty() ? "(root)" : escaped(difference.path);
    out_.print("{} {}{}: {}\n", sign, prefix, path, what(difference, data));
  }

 private:
  std::string what(const Difference& difference, const std::map<std::uint32_t, DataDiff>& data) {
    switch (difference.change) {
      case Change::kOnlyInA:
        return node_text(*difference.a, totals_a_);
      case Change::kOnlyInB:
        return node_text(*difference.b, totals_b_);
      case Change::kKeyOrder:
        return "the keys have another order";
      case Change::kData:
        return data_text(*difference.a->tensor(), data.at(difference.a->number()));
      default:
        break;
    }
    const std::string name =
        difference.change == Change::kTie ? "" : std::string(change_name(difference.change)) + " ";
    return fmt::format("{}{} -> {}", name, side(difference, *difference.a, totals_a_, ties_a_),
                       side(difference, *difference.b, totals_b_, ties_b_));
  }

  static std::string side(const Difference& difference, const NodeRef& node,
                          const SubtreeTotals& totals, const Ties& ties) {
    switch (difference.change) {
      case Change::kLabel:
        return node.label() ? label_text(node).substr(1) : "none";
      case Change::kValue:
        return scalar_text(node, kMaxShownBytes);
      case Change::kDType:
        return dtype_text(*node.tensor());
      case Change::kShape:
        return shape_text(node.tensor()->shape());
      case Change::kAxisNames:
        return "[" + axis_names_text(*node.tensor()) + "]";
      case Change::kTie:
        return tie_text(ties, *node.tensor(), difference.path);
      default:
        return node_text(node, totals);
    }
  }

  Output& out_;
  SubtreeTotals totals_a_;
  SubtreeTotals totals_b_;
  Ties ties_a_;
  Ties ties_b_;
};

void print_text(Output& out, const CheckpointFile& a, const CheckpointFile& b,
                const Report& report) {
  TextPrinter printer(out, a, b);
  for (const Difference& difference : report.state) printer.print(difference, "", report.data);
  for (const Difference& difference : report.metadata) {
    printer.print(difference, "metadata: ", report.data);
  }
  const std::size_t count = report.state.size() + report.metadata.size();
  out.print("{}\n", count == 0 ? "equal" : format_count(count, "difference"));
}

void write_side(JsonWriter& json, std::string_view name, const Difference& difference,
                const std::optional<NodeRef>& node, const Ties& ties) {
  json.key(name);
  if (!node) return json.null();
  json.begin_object();
  write_node_members(json, difference.path, *node);
  if (difference.change == Change::kTie) {
    json.key("tied_to");
    const std::string* other = partner(ties, *node->tensor(), difference.path);
    other != nullptr ? json.value(std::string_view(*other)) : json.null();
  }
  json.end_object();
}

void write_data(JsonWriter& json, const TensorRef& tensor, const DataDiff& diff) {
  const bool has_numbers = tensor.dtype() != DType::kOpaque;
  json.key("differing_elements");
  has_numbers ? json.value(diff.differing) : json.null();
  json.key("max_delta");
  if (diff.differing > diff.not_comparable) {
    std::visit([&](auto value) { json.value(value); }, diff.max_delta);
  } else {
    json.null();
  }
  json.key("not_comparable");
  has_numbers ? json.value(diff.not_comparable) : json.null();
}

void print_json(Output& out, const Options& options, const CheckpointFile& a,
                const CheckpointFile& b, const Report& report) {
  const Ties ties_a(a.checkpoint());
  const Ties ties_b(b.checkpoint());
  JsonWriter json(out);
  json.begin_object();
  json.member("a", options.a);
  json.member("b", options.b);
  json.member("equal", report.is_equal());
  json.key("differences");
  json.begin_array();
  const auto write = [&](const std::vector<Difference>& differences, std::string_view tree) {
    for (const Difference& difference : differences) {
      json.begin_object();
      json.member("tree", tree);
      json.member("path", difference.path);
      json.member("change", change_name(difference.change));
      if (difference.change == Change::kData) {
        write_data(json, *difference.a->tensor(), report.data.at(difference.a->number()));
      }
      write_side(json, "a", difference, difference.a, ties_a);
      write_side(json, "b", difference, difference.b, ties_b);
      json.end_object();
    }
  };
  write(report.state, "state");
  write(report.metadata, "metadata");
  json.end_array();
  json.end_object();
  out.put('\n');
}

Outcome run(const Options& options, Output& out) {
  auto patterns = PatternSet::parse(options.patterns);
  if (!patterns) return about("", patterns);
  auto file_a = open_file(options.a, options.common);
  if (!file_a) return about(options.a, file_a);
  auto file_b = open_file(options.b, options.common);
  if (!file_b) return about(options.b, file_b);
  const NamedFile a{options.a, std::move(*file_a)};
  const NamedFile b{options.b, std::move(*file_b)};
  const Checkpoint& checkpoint_a = a.file.checkpoint();
  const Checkpoint& checkpoint_b = b.file.checkpoint();

  Report report;
  const DiffOptions how{options.state_only};
  const bool known_equal =
      options.state_only && patterns->selects_all() && have_equal_digests(a.file, b.file);
  if (!known_equal) {
    auto differences = compare_structure(checkpoint_a, checkpoint_b, *patterns, how);
    if (!differences) return about(options.a, differences);
    report.state = std::move(*differences);
    auto compared = compare_all_data(a, b, options.common.threads, report);
    if (!compared) return tl::unexpected<Failure>(std::move(compared.error()));
  }
  if (!options.state_only && !options.no_metadata && patterns->selects_all()) {
    auto differences = compare_metadata(checkpoint_a, checkpoint_b, how);
    if (!differences) return about(options.a, differences);
    report.metadata = std::move(*differences);
  }

  if (options.common.json) {
    print_json(out, options, a.file, b.file, report);
  } else if (!options.common.quiet) {
    print_text(out, a.file, b.file, report);
  }
  return report.is_equal() ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void add_diff(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two checkpoints: structure, values, tensors");
  command->add_option("A", options->a, "A checkpoint")->required();
  command->add_option("B", options->b, "Another one")->required();
  add_pattern_arguments(*command, options->patterns);
  command->add_flag("--no-metadata", options->no_metadata, "Do not compare the files' metadata");
  command->add_flag("--state-only", options->state_only,
                    "Compare what the tree digest covers: no metadata, order of keys, ties");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "output, only the exit code");
  add_read_options(*command, options->common);
  command->footer("Example: espalier diff step-1000.espalier step-2000.espalier 'model/**'");
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
