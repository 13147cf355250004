// espalier diff: what changed between two checkpoints.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "cli/diff/data_diff.h"
#include "cli/diff/delta_ranking.h"
#include "cli/diff/tolerance.h"
#include "cli/opening/command.h"
#include "cli/opening/damage.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/urls.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/read/resolve_patterns.h"
#include "espalier/report/node_paths.h"
#include "espalier/report/structure_diff.h"
#include "espalier/report/ties.h"
#include "espalier/walker.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxShownBytes = 64;

struct DiffCommandOptions {
  CommonOptions common;
  std::string a;
  std::string b;
  std::vector<std::string> patterns;
  bool no_metadata = false;
  bool state_only = false;
  Tolerance tolerance;
  bool verify = false;
  bool stat = false;
  RankingOptions ranking;
};

using TensorNumbers = std::pair<std::uint32_t, std::uint32_t>;  // in A and in B

// Everything that the command prints.
struct Report {
  std::vector<Difference> state;
  std::vector<Difference> metadata;
  /// Data comparisons of the kData differences in `state`.
  std::map<TensorNumbers, DataDiff> data;
  /// Tensor nodes with equal elements, and those that only recorded hashes call equal.
  std::uint64_t equal_tensors = 0;
  std::uint64_t equal_by_hashes = 0;
  /// Whether all hashes of both files were checked.
  bool is_verified = false;

  bool is_equal() const { return state.empty() && metadata.empty(); }
};

// One of the two checkpoints, with facts about all of its nodes.
struct Side {
  explicit Side(const CheckpointFile& file)
      : checkpoint(file.checkpoint()), paths(checkpoint), ties(checkpoint) {}

  NodeRef node(std::uint32_t number) const { return {&checkpoint.catalog(), number}; }

  const Checkpoint& checkpoint;
  NodePaths paths;
  Ties ties;
};

// Whether names stand as one key, "layers.0.weight", as in a safetensors file.
bool has_dotted_names(const Checkpoint& checkpoint) {
  for (Walker walk(checkpoint.state()); walk.next();) {
    const NodeRef node = walk.node();
    if (!has_keys(node.kind())) continue;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      if (node.key(i).text.find('.') != std::string_view::npos) return true;
    }
  }
  return false;
}

// What a map says of itself in the metadata is no difference of models.
void drop_map_notes(std::vector<Difference>& metadata, const Checkpoint& a, const Checkpoint& b) {
  const auto number_in = [](const Checkpoint& checkpoint) {
    const auto note = checkpoint.metadata().find(KeyView::of("espalier.map"));
    return note ? note->number() : Difference::kNoNode;
  };
  const std::uint32_t in_a = number_in(a);
  const std::uint32_t in_b = number_in(b);
  std::erase_if(metadata, [&](const Difference& difference) {
    return (difference.a == in_a && in_a != Difference::kNoNode) ||
           (difference.b == in_b && in_b != Difference::kNoNode);
  });
}

// The key path that a difference is about.
std::string path_of(const Difference& difference, const Side& a, const Side& b) {
  return difference.a != Difference::kNoNode ? a.paths.path(difference.a)
                                             : b.paths.path(difference.b);
}

TensorNumbers tensors_of(const Difference& difference, const Checkpoint& a, const Checkpoint& b) {
  return {NodeRef(&a.catalog(), difference.a).tensor()->number(),
          NodeRef(&b.catalog(), difference.b).tensor()->number()};
}

// Equal digests mean equal state, but key order and ties may differ.
bool have_equal_digests(const CheckpointFile& a, const CheckpointFile& b) {
  const auto& digest_a = a.checkpoint().catalog().tree_digest();
  const auto& digest_b = b.checkpoint().catalog().tree_digest();
  return digest_a && digest_b && *digest_a == *digest_b;
}

// Compares the tensors of all kData differences, tied ones once, and drops differences whose
// tensors are equal.
tl::expected<void, Failure> compare_all_data(const NamedFile& a, const NamedFile& b,
                                             const DiffCommandOptions& options, Report& report) {
  const Checkpoint& checkpoint_a = a.file.checkpoint();
  const Checkpoint& checkpoint_b = b.file.checkpoint();
  for (const Difference& difference : report.state) {
    if (difference.change != Change::kData) continue;
    report.data.try_emplace(tensors_of(difference, checkpoint_a, checkpoint_b));
  }
  std::vector<TensorPair> pairs;
  for (const auto& [numbers, unknown] : report.data) {
    pairs.emplace_back(checkpoint_a.tensor(numbers.first), checkpoint_b.tensor(numbers.second));
  }
  auto diffs = compare_data(a, b, pairs, options.tolerance,
                            options.stat ? Scope::kAllChunks : Scope::kChangedChunks,
                            options.common.threads);
  if (!diffs) return tl::unexpected<Failure>(std::move(diffs.error()));
  std::size_t next = 0;
  for (auto& [numbers, diff] : report.data) diff = (*diffs)[next++];
  report.equal_tensors += std::erase_if(report.state, [&](const Difference& difference) {
    return difference.change == Change::kData &&
           !report.data.at(tensors_of(difference, checkpoint_a, checkpoint_b)).differs;
  });
  std::erase_if(report.data, [](const auto& entry) { return !entry.second.differs; });
  return {};
}

// Tensors with bytes; what equal digests say of them rests on their hashes.
std::uint64_t tensors_with_bytes(const Checkpoint& checkpoint) {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const TensorRef tensor = checkpoint.tensor(i);
    if (!tensor.is_placeholder() && tensor.bytes() > 0) ++count;
  }
  return count;
}

// The tensors whose bytes differ, tied ones once, in the order of A's tree.
std::vector<ChangedTensor> changed_tensors(const Report& report, const Side& a, const Side& b) {
  std::vector<ChangedTensor> changed;
  std::map<TensorNumbers, std::size_t> known;
  const std::vector<StatePart> parts = state_parts(a.checkpoint);
  for (const Difference& difference : report.state) {
    if (difference.change != Change::kData) continue;
    const TensorNumbers numbers = tensors_of(difference, a.checkpoint, b.checkpoint);
    const auto [at, is_new] = known.try_emplace(numbers, changed.size());
    if (is_new) {
      changed.push_back({{},
                         a.checkpoint.tensor(numbers.first),
                         parts[difference.a],
                         report.data.at(numbers).delta});
    }
    changed[at->second].nodes.push_back(difference.a);
  }
  return changed;
}

std::string tie_text(const Side& side, const NodeRef& node) {
  const auto other = side.ties.partner(node);
  return other ? "tied to " + mention_text(side.paths.path(*other)) : "not tied";
}

// Whether the two nodes of a kValue difference are numbers within the tolerance.
bool is_close_value(const NodeRef& a, const NodeRef& b, const Tolerance& tolerance) {
  if (const auto x = a.as_int64()) return is_close(*x, *b.as_int64(), tolerance);
  if (const auto x = a.as_double()) return is_close(*x, *b.as_double(), tolerance);
  if (const auto x = a.as_complex())
    return is_close<std::complex<double>>(*x, *b.as_complex(), tolerance);
  return false;
}

void drop_close_values(std::vector<Difference>& differences, const Checkpoint& a,
                       const Checkpoint& b, const Tolerance& tolerance) {
  if (tolerance.is_zero()) return;
  std::erase_if(differences, [&](const Difference& difference) {
    return difference.change == Change::kValue &&
           is_close_value(NodeRef(&a.catalog(), difference.a), NodeRef(&b.catalog(), difference.b),
                          tolerance);
  });
}

// A kept header says how a safetensors file stored the same state. Storage is not compared.
void drop_kept_headers(std::vector<Difference>& differences, const Checkpoint& a,
                       const Checkpoint& b) {
  std::erase_if(differences, [&](const Difference& difference) {
    const NodeRef node = difference.a != Difference::kNoNode ? NodeRef(&a.catalog(), difference.a)
                                                             : NodeRef(&b.catalog(), difference.b);
    return node.label() == kKeptHeaderKey && node.kind() == Kind::kString;
  });
}

std::string data_text(const TensorRef& tensor, const DataDiff& diff, const Tolerance& tolerance) {
  if (tensor.dtype() == DType::kOpaque) return "bytes differ";
  if (diff.differing == 0)
    return "bytes differ, but elements are equal (signs of zeros, NaN payloads)";
  std::string text =
      fmt::format("{} of {} differ{}", diff.differing, counted(tensor.elements(), "element"),
                  tensor.elements() == 1 ? "s" : "");
  if (!tolerance.is_zero()) text += " by more than the tolerance";
  if (diff.differing > diff.not_comparable) {
    text += ", max |delta| " +
            std::visit([](auto value) { return fmt::format("{}", value); }, diff.max_delta);
  }
  if (diff.not_comparable > 0) {
    text += fmt::format(", {} of them not finite", diff.not_comparable);
  }
  return text;
}

// Elements of a transposed tensor are not compared: the files hold them in another order.
std::string shapes_text(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  const bool is_transposed =
      a.size() == b.size() && std::equal(a.begin(), a.end(), b.rbegin(), b.rend());
  return fmt::format("shape {} -> {}{}", shape_text(a), shape_text(b),
                     is_transposed ? " (transposed?)" : "");
}

class TextPrinter {
 public:
  TextPrinter(Output& out, const Side& a, const Side& b, const Report& report,
              const Tolerance& tolerance)
      : out_(out),
        tolerance_(tolerance),
        a_(a),
        b_(b),
        report_(report),
        totals_a_(a.checkpoint),
        totals_b_(b.checkpoint) {}

  void print(const Difference& difference, std::string_view prefix) {
    const char sign = difference.change == Change::kOnlyInA   ? '-'
                      : difference.change == Change::kOnlyInB ? '+'
                                                              : '~';
    out_.print("{} {}{}: {}\n", sign, prefix, path_text(path_of(difference, a_, b_)),
               what(difference));
  }

 private:
  std::string what(const Difference& difference) {
    switch (difference.change) {
      case Change::kOnlyInA:
        return node_text(a_.node(difference.a), totals_a_);
      case Change::kOnlyInB:
        return node_text(b_.node(difference.b), totals_b_);
      case Change::kShape:
        return shapes_text(a_.node(difference.a).tensor()->shape(),
                           b_.node(difference.b).tensor()->shape());
      case Change::kKeyOrder:
        return "the keys are in another order";
      case Change::kData: {
        const TensorNumbers tensors = tensors_of(difference, a_.checkpoint, b_.checkpoint);
        return data_text(a_.checkpoint.tensor(tensors.first), report_.data.at(tensors), tolerance_);
      }
      default:
        break;
    }
    const std::string name =
        difference.change == Change::kTie ? "" : std::string(change_name(difference.change)) + " ";
    return fmt::format("{}{} -> {}", name,
                       on_side(difference.change, a_, a_.node(difference.a), totals_a_),
                       on_side(difference.change, b_, b_.node(difference.b), totals_b_));
  }

  static std::string on_side(Change change, const Side& side, const NodeRef& node,
                             SubtreeTotals& totals) {
    switch (change) {
      case Change::kLabel:
        return node.label() ? label_text(node).substr(1) : "none";
      case Change::kValue:
        return scalar_text(node, kMaxShownBytes);
      case Change::kDType:
        return dtype_text(*node.tensor());
      case Change::kAxisNames:
        return "[" + axis_names_text(*node.tensor(), kMaxMentionBytes) + "]";
      case Change::kTie:
        return tie_text(side, node);
      default:
        return node_text(node, totals);
    }
  }

  Output& out_;
  const Tolerance tolerance_;
  const Side& a_;
  const Side& b_;
  const Report& report_;
  SubtreeTotals totals_a_;
  SubtreeTotals totals_b_;
};

// Whether the two trees have no tensors there that could be compared.
bool is_structural(const Difference& difference) {
  switch (difference.change) {
    case Change::kOnlyInA:
    case Change::kOnlyInB:
    case Change::kKind:
    case Change::kDType:
    case Change::kShape:
      return true;
    default:
      return false;
  }
}

// The structural differences of the state that --stat lists before its figures.
std::vector<const Difference*> structural_rows(const Report& report,
                                               const RankingOptions& options) {
  const std::uint64_t top = options.top.value_or(kTopInText);
  std::vector<const Difference*> rows;
  for (const Difference& difference : report.state) {
    if (top > 0 && rows.size() >= top) break;
    if (is_structural(difference)) rows.push_back(&difference);
  }
  return rows;
}

// The last line: what was found, and whether it rests on recorded hashes.
std::string conclusion(const Report& report, const DiffCommandOptions& options) {
  constexpr std::string_view kTrusting = "equal by recorded hashes, not verified";
  const bool is_trusting = report.equal_by_hashes > 0 && !report.is_verified;
  if (report.is_equal()) return std::string(is_trusting ? kTrusting : "equal");
  const std::size_t count = report.state.size() + report.metadata.size();
  std::string text = counted(count, "difference");
  if (options.stat) {
    const std::size_t tensors = report.data.size();
    text = counted(tensors, "changed tensor");
    const std::size_t listed = structural_rows(report, options.ranking).size();
    const auto others = static_cast<std::size_t>(std::count_if(
                            report.state.begin(), report.state.end(),
                            [](const Difference& one) { return one.change != Change::kData; })) -
                        listed + report.metadata.size();
    if (listed > 0) text += ", " + counted(listed, "difference") + " of structure";
    if (others > 0) {
      text += ", " + counted(others, "other difference") + ", which diff without --stat lists";
    }
  }
  if (is_trusting) {
    text += fmt::format("; {} {}", counted(report.equal_by_hashes, "tensor"), kTrusting);
  } else if (options.stat) {
    text += fmt::format("; {} equal", counted(report.equal_tensors, "tensor"));
  }
  return text;
}

void print_text(Output& out, const DiffCommandOptions& options, const Side& a, const Side& b,
                const Report& report) {
  if (options.stat) {
    const auto structural = structural_rows(report, options.ranking);
    TextPrinter printer(out, a, b, report, options.tolerance);
    for (const Difference* difference : structural) printer.print(*difference, "");
    if (!structural.empty()) out.put('\n');
    print_ranking(out, changed_tensors(report, a, b), a.paths, options.ranking);
  } else {
    TextPrinter printer(out, a, b, report, options.tolerance);
    for (const Difference& difference : report.state) printer.print(difference, "");
    for (const Difference& difference : report.metadata) printer.print(difference, "metadata: ");
  }
  out.print("{}\n", conclusion(report, options));
}

// One side's node of a difference.
void write_node(JsonWriter& json, std::string_view name, Change change, std::uint32_t number,
                const Side& side, LongNames& names) {
  json.key(name);
  if (number == Difference::kNoNode) return json.null();
  const NodeRef node = side.node(number);
  json.begin_object();
  write_node_members(json, side.paths.path(node), node, names);
  if (change == Change::kTie) {
    json.key("tied_to");
    const auto other = side.ties.partner(node);
    other ? json.value(side.paths.path(*other)) : json.null();
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

void print_json(Output& out, const DiffCommandOptions& options, const Side& a, const Side& b,
                const Report& report) {
  JsonWriter json(out);
  json.begin_object();
  json.member("a", shown_name(options.a));
  json.member("b", shown_name(options.b));
  json.member("equal", report.is_equal());
  json.member("rtol", options.tolerance.rtol);
  json.member("atol", options.tolerance.atol);
  json.key("differences");
  json.begin_array();
  LongNames names_a;
  LongNames names_b;
  const auto write = [&](const std::vector<Difference>& differences, std::string_view tree) {
    for (const Difference& difference : differences) {
      json.begin_object();
      json.member("tree", tree);
      json.member("path", path_of(difference, a, b));
      json.member("change", change_name(difference.change));
      if (difference.change == Change::kData) {
        const TensorNumbers tensors = tensors_of(difference, a.checkpoint, b.checkpoint);
        write_data(json, a.checkpoint.tensor(tensors.first), report.data.at(tensors));
      }
      write_node(json, "a", difference.change, difference.a, a, names_a);
      write_node(json, "b", difference.change, difference.b, b, names_b);
      json.end_object();
    }
  };
  write(report.state, "state");
  write(report.metadata, "metadata");
  json.end_array();
  json.member("equal_tensors", report.equal_tensors);
  json.member("equal_by_hashes", report.equal_by_hashes);
  json.member("verified", report.is_verified);
  if (options.stat) write_ranking(json, changed_tensors(report, a, b), a.paths, options.ranking);
  json.end_object();
  out.put('\n');
}

Result<void> check_tolerance(double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return fail(ErrorCode::kInvalidArgument, "a tolerance is a finite number, 0 or more");
}

Result<VerifyReport> verify(const NamedFile& named) {
  ProgressBar progress("checking");
  return named.file.verify({.progress = progress.callback()}, FileScope::kAll);
}

// The result for files one or both of which are damaged: their hashes do not say what they hold.
void report_damage(const DiffCommandOptions& options, Output& out, const VerifyReport& a,
                   const VerifyReport& b) {
  if (!options.common.json) {
    if (options.common.quiet) return;
    if (a.error_count > 0) print_damage(out, options.a, a);
    if (b.error_count > 0) print_damage(out, options.b, b);
    out.write("not compared\n");
    return;
  }
  JsonWriter json(out);
  json.begin_object();
  json.member("a", shown_name(options.a));
  json.member("b", shown_name(options.b));
  json.key("equal");
  json.null();
  json.key("differences");
  json.null();
  json.member("verified", false);
  json.key("damage");
  json.begin_object();
  for (const auto& [name, report] : {std::pair("a", &a), std::pair("b", &b)}) {
    json.key(name);
    json.begin_object();
    write_damage(json, *report);
    json.end_object();
  }
  json.end_object();
  json.end_object();
  out.put('\n');
}

Outcome run_diff(const DiffCommandOptions& options, Output& out) {
  if (options.stat && !options.tolerance.is_zero()) {
    return refuse("--stat", "it measures every change; leave out --rtol and --atol");
  }
  if (auto ok = check_tolerance(options.tolerance.rtol); !ok) return about("--rtol", ok);
  if (auto ok = check_tolerance(options.tolerance.atol); !ok) return about("--atol", ok);
  auto patterns = parse_patterns(options.patterns);
  if (!patterns) return about("", patterns);
  CommonOptions common_a = options.common;
  CommonOptions common_b = options.common;
  common_b.map = {};
  const bool is_mapped = !options.common.map.names.empty();
  auto file_a = open_file(options.a, common_a);
  if (!file_a) return about(options.a, file_a);
  auto file_b = open_file(options.b, common_b);
  if (!file_b) return about(options.b, file_b);
  // Frameworks keep the same names as one key or as nested ones.
  if (is_mapped && !options.common.nest &&
      has_dotted_names(file_a->checkpoint()) != has_dotted_names(file_b->checkpoint())) {
    common_a.nest = common_b.nest = true;
    file_a = open_file(options.a, common_a);
    if (!file_a) return about(options.a, file_a);
    file_b = open_file(options.b, common_b);
    if (!file_b) return about(options.b, file_b);
  }
  const NamedFile a{options.a, std::move(*file_a)};
  const NamedFile b{options.b, std::move(*file_b)};
  const Checkpoint& checkpoint_a = a.file.checkpoint();
  const Checkpoint& checkpoint_b = b.file.checkpoint();
  resolve_patterns(*patterns, {checkpoint_a.state(), checkpoint_b.state()});

  Report report;
  if (options.verify) {
    auto verified_a = verify(a);
    if (!verified_a) return about(options.a, verified_a);
    auto verified_b = verify(b);
    if (!verified_b) return about(options.b, verified_b);
    if (verified_a->error_count > 0 || verified_b->error_count > 0) {
      report_damage(options, out, *verified_a, *verified_b);
      return ExitCode::kCheckFailed;
    }
    report.is_verified = true;
  }
  const DiffOptions how{options.state_only};
  const bool known_equal =
      options.state_only && patterns->empty() && have_equal_digests(a.file, b.file);
  if (known_equal) {
    report.equal_tensors = report.equal_by_hashes = tensors_with_bytes(checkpoint_a);
  } else {
    auto differences = compare_structure(checkpoint_a, checkpoint_b, *patterns, how);
    if (!differences) {
      return fail_about(options.a, explain_unmatched(differences.error(), options.patterns,
                                                     {checkpoint_a.state(), checkpoint_b.state()}));
    }
    report.state = std::move(differences->differences);
    report.equal_tensors = differences->equal_tensors;
    report.equal_by_hashes = differences->equal_by_hashes;
    if (is_mapped) {
      // A map makes tensors in an order of its own.
      std::erase_if(report.state, [](const Difference& difference) {
        return difference.change == Change::kKeyOrder;
      });
    }
    drop_close_values(report.state, checkpoint_a, checkpoint_b, options.tolerance);
    auto compared = compare_all_data(a, b, options, report);
    if (!compared) return tl::unexpected<Failure>(std::move(compared.error()));
  }
  if (!options.state_only && !options.no_metadata && patterns->empty()) {
    auto differences = compare_metadata(checkpoint_a, checkpoint_b, how);
    if (!differences) return about(options.a, differences);
    report.metadata = std::move(differences->differences);
    drop_close_values(report.metadata, checkpoint_a, checkpoint_b, options.tolerance);
    drop_kept_headers(report.metadata, checkpoint_a, checkpoint_b);
    if (is_mapped) drop_map_notes(report.metadata, checkpoint_a, checkpoint_b);
  }

  if (options.common.json) {
    print_json(out, options, Side(a.file), Side(b.file), report);
  } else if (!options.common.quiet) {
    print_text(out, options, Side(a.file), Side(b.file), report);
  }
  return report.is_equal() ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void add_diff(CLI::App& app, Action& action) {
  auto options = std::make_shared<DiffCommandOptions>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two checkpoints: structure, values, tensors");
  command->add_option("A", options->a, kCheckpointHelp)->required();
  command->add_option("B", options->b, "Another one")->required();
  add_pattern_arguments(*command, options->patterns);
  command->add_flag("--no-metadata", options->no_metadata, "Do not compare the files' metadata");
  command->add_flag(
      "--state-only", options->state_only,
      "Compare only what the tree digest covers; ignore metadata, key order and ties");
  command
      ->add_option("--rtol", options->tolerance.rtol,
                   "Take numbers a and b for equal if |a - b| <= atol + rtol * |b|, as "
                   "numpy.allclose does; 0 is the default")
      ->type_name("NUMBER");
  command->add_option("--atol", options->tolerance.atol, "The other part of this tolerance")
      ->type_name("NUMBER");
  command->add_flag("--verify", options->verify,
                    "Check both files against their hashes first; without it, tensors with equal "
                    "hashes count as equal unread");
  CLI::Option* stat = command->add_flag(
      "--stat", options->stat,
      "Show what differs in structure, then how far each changed tensor and each layer moved: "
      "weights first, then the optimizer's and the rest, largest change first");
  command
      ->add_option(
          "--sort", options->ranking.order,
          "The order of --stat: by ||B - A|| / ||A|| (relative, the default), by ||B - A|| "
          "(norm), by the share of changed elements, by the largest change of an element "
          "(max), by cosine (least similar first), or by path in byte order")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kRankings), std::end(kRankings)))
                  .description(""))
      ->type_name("relative|norm|changed|max|cosine|path")
      ->needs(stat);
  command
      ->add_option(
          "--top", options->ranking.top,
          "The number of tensors and of layers that --stat shows of each part, 0 for all; by "
          "default, text has 20 of the weights and 5 of the others, and JSON all")
      ->check(CLI::Range(0, 1'000'000'000).description(""))
      ->type_name("N")
      ->needs(stat);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "output, only the exit code");
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Compare what a key map makes of A with B");
  options->common.map.checks_data = true;
  set_examples(*command, {"espalier diff step-1000.espalier step-2000.espalier",
                          "espalier diff step-1000.espalier step-2000.espalier 'model/**'",
                          "espalier diff base.safetensors tuned.safetensors --stat --top 10",
                          "espalier diff run.espalier copy.espalier --verify"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_diff(*options, out); }; });
}

}  // namespace espalier::cli
