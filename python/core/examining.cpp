// What is wrong with the numbers of files, of states, and of states that are saved.
#include "examining.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "bindings.h"
#include "encode.h"
#include "errors.h"
#include "file.h"
#include "interruptible.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "espalier/checkpoint_file.h"
#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/resolve_patterns.h"
#include "examine/examine_file.h"

namespace espalier::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The nodes that the patterns select; all without patterns.
Result<std::vector<std::uint32_t>> select_nodes(const CheckpointFile& file,
                                                const std::vector<std::string>& patterns) {
  auto parsed = parse_patterns(patterns);
  if (!parsed) return propagate(parsed);
  resolve_patterns(*parsed, {file.state()});
  PatternStepper stepper(*parsed);
  auto nodes = match_nodes(file.state(), stepper);
  if (auto ok = stepper.check_all_matched(); !ok) return propagate(ok);
  return nodes;
}

// (severity, rule, key path, other key path, text, element or None)
nb::list listed(const std::vector<Finding>& findings) {
  nb::list list;
  for (const Finding& finding : findings) {
    list.append(nb::make_tuple(severity_name(finding.severity), health_rule_name(finding.rule),
                               text(finding.path, "backslashreplace"),
                               text(finding.other, "backslashreplace"),
                               text(finding.text, "backslashreplace"), finding.at));
  }
  return list;
}

// (findings, tensors, bytes, placeholders, opaque, alone, whether tensors were left out)
nb::tuple examined(const CheckpointFile& file, const std::vector<std::string>& patterns,
                   unsigned threads, const nb::object& progress, const std::string& where,
                   const Raised* raised) {
  const auto nodes = must(select_nodes(file, patterns), where);
  std::optional<Examination> examination;
  auto result = run_interruptibly(
      progress, [&](const Progress& tell, const std::atomic<bool>& cancel) -> Result<void> {
        auto found = examine(file, nodes, threads, {.progress = tell, .cancel = &cancel});
        if (!found) return propagate(found);
        examination = std::move(*found);
        return {};
      });
  if (raised != nullptr) raised->rethrow();
  must(std::move(result), where);
  return nb::make_tuple(listed(examination->findings), examination->tensors, examination->bytes,
                        examination->placeholders, examination->opaque, examination->alone,
                        examination->is_of_some);
}

nb::tuple examine_file(nb::handle file, const std::vector<std::string>& patterns, unsigned threads,
                       const nb::object& progress, const std::string& where) {
  const CheckpointFile checkpoint = checkpoint_of(file);  // Another thread may close the File.
  return examined(checkpoint, patterns, threads, progress, where, nullptr);
}

nb::tuple examine_state(nb::handle state, const std::vector<std::string>& patterns,
                        unsigned threads, const nb::object& progress) {
  const Encoded encoded = encode(state, Views::kCopy, Use::kOneByOne);
  const auto file = must(open_value(encoded.value, Value::dict()));
  return examined(file, patterns, threads, progress, {}, encoded.raised.get());
}

}  // namespace

StateCheck::StateCheck(const std::string& mode) {
  if (mode.empty()) return;
  if (mode != "warn" && mode != "raise") throw nb::value_error("not a check");
  found_ = std::make_shared<Found>();
  raises_ = mode == "raise";
}

void StateCheck::add_to(SaveOptions& options) const {
  if (found_ == nullptr) return;
  options.check = [found = found_, raises = raises_](const Value& state,
                                                     const SaveOptions& saving) -> Result<void> {
    const auto file = open_value(state, Value::dict());
    if (!file) return propagate(file);
    const auto nodes = select_nodes(*file, {});
    if (!nodes) return propagate(nodes);
    auto examination = examine(*file, *nodes, saving.threads.count,
                               {.progress = saving.progress, .cancel = saving.cancel});
    if (!examination) return propagate(examination);
    for (Finding& finding : examination->findings) {
      if (finding.severity == Severity::kFault) found->faults.push_back(std::move(finding));
    }
    found->is_refused = raises && !found->faults.empty();
    if (!found->is_refused) return {};
    return fail(ErrorCode::kInvalidTree, "the numbers of the state have faults");
  };
}

nb::list StateCheck::faults() const {
  return found_ == nullptr ? nb::list() : listed(found_->faults);
}

nb::object StateCheck::refusal() const {
  if (found_ == nullptr || !found_->is_refused) return {};
  return nb::module_::import_("espalier._doctor").attr("refused")(faults());
}

void bind_examining(nb::module_& module) {
  module.def(
      "examine_file", &examine_file, "file"_a, "patterns"_a, "threads"_a, "progress"_a.none(),
      "where"_a, nb::call_guard<Call>(),
      nb::sig("def examine_file(file: File, patterns: collections.abc.Sequence[str], threads: int, "
              "progress: collections.abc.Callable[[int, int], object] | None, where: str) -> "
              "tuple[list[tuple[str, str, str, str, str, int | None]], int, int, int, int, int, "
              "bool]"));
  module.def(
      "examine_state", &examine_state, "state"_a.none(), "patterns"_a, "threads"_a,
      "progress"_a.none(), nb::call_guard<Call>(),
      nb::sig("def examine_state(state: object, patterns: collections.abc.Sequence[str], threads: "
              "int, progress: collections.abc.Callable[[int, int], object] | None) -> "
              "tuple[list[tuple[str, str, str, str, str, int | None]], int, int, int, int, int, "
              "bool]"));
}

}  // namespace espalier::python
