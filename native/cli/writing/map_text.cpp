#include "cli/writing/map_text.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/terminal/colors.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/base/near_miss.h"
#include "espalier/base/real_text.h"
#include "espalier/dtype.h"
#include "espalier/key_map.h"
#include "espalier/map/adapter.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/plan.h"
#include "files/map/map_targets.h"

namespace espalier::cli {
namespace {

// "rule 3", or "rest".
std::string rule_name(std::uint32_t rule) {
  return rule == MapTarget::kKept ? "rest" : "rule " + std::to_string(rule + 1);
}

bool is_tensor(const MapPlan& plan, const MapTarget& target) {
  return target.source == MapPiece::kZeros || plan.leaves()[target.source].is_tensor;
}

std::string direction_text(const KeyMap& map, bool reverse) {
  const std::string& from = map.parts().side(!reverse).label;
  const std::string& to = map.parts().side(reverse).label;
  if (from.empty() || to.empty()) return reverse ? "right to left" : "left to right";
  return from + " -> " + to;
}

struct Totals {
  std::uint64_t sources = 0;
  std::uint64_t targets = 0;
  std::uint64_t dropped = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t renamed = 0;
  std::uint64_t gathered = 0;
  std::uint64_t computed = 0;
};

Totals totals_of(const MappedCheckpoint& mapped) {
  const MapPlan& plan = mapped.plan();
  Totals totals;
  totals.sources = plan.leaves().size();
  totals.targets = plan.targets().size();
  totals.dropped = plan.dropped().size();
  for (std::size_t i = 0; i < plan.targets().size(); ++i) {
    const MapTarget& target = plan.targets()[i];
    if (is_tensor(plan, target)) totals.writes += mapped.targets().bytes(i);
    switch (target.work) {
      case MapWork::kRename:
        ++totals.renamed;
        break;
      case MapWork::kBlockGather:
      case MapWork::kStrided:
        ++totals.gathered;
        break;
      case MapWork::kArithmetic:
        ++totals.computed;
        break;
    }
    for (const std::uint32_t source : target.sources()) {
      if (const auto& origin = mapped.origin(source)) totals.reads += origin->tensor.bytes();
    }
  }
  return totals;
}

// An exact plan loses nothing, so its inverse gives the same bytes back.
bool is_exact(const MapPlan& plan) {
  return plan.dropped().empty() && plan.losses().empty() &&
         std::none_of(plan.targets().begin(), plan.targets().end(),
                      [](const MapTarget& target) { return target.work == MapWork::kArithmetic; });
}

std::vector<std::string> inverse_problems(const KeyMap& map, const MapPlan& plan, bool reverse) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < map.parts().rules.size(); ++i) {
    const std::string problem = inverse_problem(map.parts().rules[i], reverse);
    if (!problem.empty()) problems.push_back("rule " + std::to_string(i + 1) + ": " + problem);
  }
  if (!plan.adapter()) return problems;
  const auto& modules = plan.adapter()->modules;
  const auto joined = std::count_if(modules.begin(), modules.end(),
                                    [](const MapAdapted& each) { return each.is_joined; });
  if (joined > 0) {
    problems.push_back(
        "factors of " + counted(static_cast<std::uint64_t>(joined), "module") +
        " are joined from several; taken apart again, each part has the joined rank, and the "
        "product that it had");
  }
  return problems;
}

// What names do not say any more, in sentences.
std::vector<std::string> lost_places_of(const MappedCheckpoint& mapped) {
  std::vector<std::string> texts;
  const auto outputs = mapped.outputs();
  for (std::size_t i = 0; outputs && i < outputs->size(); ++i) {
    const MapOutput& output = (*outputs)[i];
    if (output.unlisted == 0) continue;
    texts.push_back("positions in lists and integer keys become text keys, as of " +
                    output.first_unlisted +
                    (output.unlisted > 1 ? " and " + counted(output.unlisted - 1, "further value")
                                         : std::string()));
  }
  return texts;
}

// All that the result does not have any more.
std::vector<std::string> losses_of(const MappedCheckpoint& mapped) {
  std::map<std::uint32_t, std::uint64_t> by_rule;
  for (const MapPlan::Dropped& dropped : mapped.plan().dropped()) ++by_rule[dropped.rule];
  std::vector<std::string> texts = lost_places_of(mapped);
  for (const auto& [rule, count] : by_rule) {
    texts.push_back((rule == MapTarget::kKept ? std::string("\"rest\"") : rule_name(rule)) +
                    " drops " + counted(count, "source"));
  }
  return texts;
}

std::uint64_t max_passes(const MappedCheckpoint& mapped) {
  std::uint64_t most = 1;
  for (std::size_t i = 0; i < mapped.plan().targets().size(); ++i) {
    if (!mapped.plan().targets()[i].pieces.empty()) {
      most = std::max(most, mapped.targets().passes(i));
    }
  }
  return most;
}

void write_target_members(JsonWriter& json, const MappedCheckpoint& mapped,
                          const MapTarget& target) {
  const MapPlan& plan = mapped.plan();
  json.member("target", target.name);
  if (!target.tied.empty()) {
    json.key("tied");
    json.begin_array();
    for (const std::string& name : target.tied) json.value(name);
    json.end_array();
  }
  json.key("rule");
  if (target.rule == MapTarget::kKept) {
    json.value("rest");
  } else {
    json.value(target.rule + 1);
  }
  json.member("work", work_name(target.work));
  if (is_tensor(plan, target)) {
    json.member("dtype", dtype_name(target.dtype));
    json.key("shape");
    json.begin_array();
    for (const std::uint64_t size : target.shape) json.value(size);
    json.end_array();
  }
  json.key("sources");
  json.begin_array();
  for (const std::uint32_t source : target.sources()) {
    json.begin_object();
    json.member("name", plan.leaves()[source].name);
    if (const auto& origin = mapped.origin(source)) {
      json.member("file", mapped.inputs()[origin->input].name);
      if (const auto hash = origin->tensor.content_hash()) json.member("hash", to_hex(*hash));
    }
    json.end_object();
  }
  json.end_array();
}

void write_totals(JsonWriter& json, const MappedCheckpoint& mapped) {
  const Totals totals = totals_of(mapped);
  json.key("totals");
  json.begin_object();
  json.member("sources", totals.sources);
  json.member("targets", totals.targets);
  json.member("kept", mapped.plan().kept());
  json.member("dropped", totals.dropped);
  json.member("renamed", totals.renamed);
  json.member("gathered", totals.gathered);
  json.member("computed", totals.computed);
  json.member("reads", totals.reads);
  json.member("bytes", totals.writes);
  json.member("passes", max_passes(mapped));
  const MapRounding rounding = mapped.targets().rounding();
  json.member("became_infinite", rounding.overflows);
  json.member("inexact", rounding.inexact);
  json.member("lost_elements", mapped.targets().lost_elements());
  json.end_object();
}

// "rank 8, alpha 16: 64 modules; rank 24, alpha 48: 2 modules".
std::string scales_text(const MapAdapter& adapter) {
  std::vector<std::pair<AdapterScale, std::uint64_t>> counts;
  for (const MapAdapted& each : adapter.modules) {
    const AdapterScale scale{each.rank, each.alpha};
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& count) { return count.first == scale; });
    if (found == counts.end()) {
      counts.emplace_back(scale, 1);
    } else {
      ++found->second;
    }
  }
  constexpr std::size_t kMostShown = 8;
  std::string text;
  for (std::size_t i = 0; i < counts.size() && i < kMostShown; ++i) {
    const auto& [scale, count] = counts[i];
    text += fmt::format("{}rank {}, alpha {}: {}", i > 0 ? "; " : "", scale.rank,
                        scale.alpha ? print_number(*scale.alpha) : std::string("as before"),
                        counted(count, "module"));
  }
  if (counts.size() > kMostShown) text += "; and others";
  return text;
}

void print_adapter(Output& out, const MapPlan& plan) {
  if (!plan.adapter()) return;
  out.print("adapter: {}\n", plan.adapter()->modules.empty() ? std::string("no module")
                                                             : scales_text(*plan.adapter()));
}

void print_notes(Output& out, const MapPlan& plan) {
  for (const std::string& note : plan.notes()) {
    out.print("note: {}\n", shortened(escaped(note), kMaxMessageBytes));
  }
}

void write_adapter(JsonWriter& json, const MapPlan& plan) {
  if (!plan.adapter()) return;
  const AdapterScale common = common_scale(*plan.adapter());
  json.key("lora");
  json.begin_object();
  json.member("r", common.rank);
  if (common.alpha) json.member("lora_alpha", *common.alpha);
  json.member("use_rslora", plan.adapter()->is_rank_stabilized);
  if (are_all_transposed(*plan.adapter())) json.member("fan_in_fan_out", true);
  const AdapterPatterns patterns = adapter_patterns(*plan.adapter());
  json.key("rank_pattern");
  json.begin_object();
  for (const auto& [name, rank] : patterns.ranks) json.member(name, rank);
  json.end_object();
  json.key("alpha_pattern");
  json.begin_object();
  for (const auto& [name, alpha] : patterns.alphas) json.member(name, alpha);
  json.end_object();
  json.key("target_modules");
  json.begin_array();
  for (const MapAdapted& each : plan.adapter()->modules) json.value(each.module);
  json.end_array();
  json.end_object();
}

void write_notes(JsonWriter& json, const MapPlan& plan) {
  if (plan.notes().empty()) return;
  json.key("notes");
  json.begin_array();
  for (const std::string& note : plan.notes()) json.value(note);
  json.end_array();
}

// The first words of a description.
std::string first_sentence(std::string_view text) {
  const std::size_t end = text.find(". ");
  return escaped(text.substr(0, end == std::string_view::npos ? end : end + 1));
}

void write_ledger(Output& out, const MapStage& stage) {
  const auto& [map, mapped] = stage;
  const MapPlan& plan = mapped.plan();
  for (const MapTarget& target : plan.targets()) {
    JsonWriter json(out);
    json.begin_object();
    write_target_members(json, mapped, target);
    json.end_object();
    out.put('\n');
  }
  for (const MapPlan::Dropped& dropped : plan.dropped()) {
    JsonWriter json(out);
    json.begin_object();
    json.member("dropped", plan.leaves()[dropped.leaf].name);
    json.key("rule");
    if (dropped.rule == MapTarget::kKept) {
      json.value("rest");
    } else {
      json.value(dropped.rule + 1);
    }
    json.end_object();
    out.put('\n');
  }
  JsonWriter json(out);
  json.begin_object();
  json.member("map", map.name());
  json.member("hash", to_hex(map.hash()));
  write_totals(json, mapped);
  json.end_object();
  out.put('\n');
}

// What is made of a source of that name, or else the name of a target that is meant.
std::string hint_for(const MapPlan& plan, const std::string& name) {
  constexpr std::uint64_t kMostWork = 100'000'000;
  NearMiss nearest(name);
  std::optional<std::string> meant;
  for (const MapTarget& target : plan.targets()) {
    for (const std::uint32_t source : target.sources()) {
      if (plan.leaves()[source].name != name) continue;
      return ", which is a source; it makes " + escaped(target.name) + " of it";
    }
    if (nearest.work() < kMostWork && nearest.offer(target.name)) meant = target.name;
  }
  return meant ? ", but perhaps " + escaped(*meant) + " is meant" : std::string();
}

}  // namespace

void print_known_maps(Output& out, bool as_json) {
  if (as_json) {
    JsonWriter json(out);
    json.begin_object();
    json.key("maps");
    json.begin_array();
    for (const KnownMap& known : known_maps()) {
      const auto map = KeyMap::parse(known.text);
      json.begin_object();
      json.member("name", known.name);
      json.member("description", map ? std::string_view(map->description()) : std::string_view());
      if (map) json.member("hash", to_hex(map->hash()));
      json.end_object();
    }
    json.end_array();
    json.end_object();
    out.put('\n');
    return;
  }
  Table table({{}}, out.colors());
  for (const KnownMap& known : known_maps()) table.measure({std::string(known.name)});
  std::string text;
  for (const KnownMap& known : known_maps()) {
    const auto map = KeyMap::parse(known.text);
    table.append_row(text, {std::string(known.name)},
                     map ? first_sentence(map->description()) : std::string());
  }
  out.write(text);
}

void print_plan(Output& out, const MapStage& stage, bool reverse, std::uint64_t memory) {
  const auto& [map, mapped] = stage;
  const MapPlan& plan = mapped.plan();
  const auto problems = inverse_problems(map, plan, reverse);
  out.print("{}: {}; {}; {}\n", escaped(map.name()), escaped(direction_text(map, reverse)),
            is_exact(plan) ? "exact" : "not exact",
            problems.empty() ? "invertible" : "not invertible");
  Table table({{}, {Table::Align::kRight}, {Table::Align::kRight}, {}}, out.colors());
  const auto row = [&](const std::string& name, std::uint64_t sources, std::uint64_t targets,
                       std::string_view work) {
    return Table::Cells{name, std::to_string(sources), "-> " + std::to_string(targets),
                        std::string(work)};
  };
  std::vector<std::pair<Table::Cells, std::string>> rows;
  for (std::size_t i = 0; i < plan.rules().size(); ++i) {
    const MapRuleCount& count = plan.rules()[i];
    if (count.sources == 0 && count.targets == 0) continue;
    const std::string_view work = count.targets == 0 ? "drop" : work_name(count.work);
    rows.emplace_back(
        row(rule_name(static_cast<std::uint32_t>(i)), count.sources, count.targets, work),
        escaped(map.parts().rules[i].text));
  }
  if (plan.kept() > 0) rows.emplace_back(row("rest", plan.kept(), plan.kept(), "keep"), "");
  for (const auto& [cells, text] : rows) table.measure(cells);
  std::string text;
  for (const auto& [cells, rule] : rows) {
    table.append_row(text, cells, shortened(rule, kMaxMentionBytes));
  }
  out.write(text);
  for (const std::string& problem : problems) out.print("no inverse: {}\n", escaped(problem));
  for (const std::string& loss : losses_of(mapped)) out.print("loses: {}\n", escaped(loss));
  const Totals totals = totals_of(mapped);
  out.print("{}: {} dropped; {}: {} renamed, {} gathered, {} computed\n",
            counted(totals.sources, "source"), totals.dropped, counted(totals.targets, "target"),
            totals.renamed, totals.gathered, totals.computed);
  const std::uint64_t passes = max_passes(mapped);
  out.print("reads {}{}, writes {}, memory {}\n", format_size(totals.reads),
            passes > 1
                ? fmt::format(" (some of it {} times; more --memory reads it less often)", passes)
                : std::string(),
            format_size(totals.writes), format_size(memory));
  print_adapter(out, plan);
  print_notes(out, plan);
}

void print_unread(Output& out, const std::optional<std::string>& unread) {
  if (!unread) return;
  out.print("{} is OUT, and was not read; with -o OUT, all names are inputs\n", escaped(*unread));
}

void print_map_summary(Output& out, const MappedCheckpoint& mapped) {
  const Totals totals = totals_of(mapped);
  out.print("{}: {} renamed, {} gathered, {} computed; {} dropped\n",
            counted(totals.targets, "target"), totals.renamed, totals.gathered, totals.computed,
            counted(totals.dropped, "source"));
  for (const std::string& loss : lost_places_of(mapped)) out.print("loses: {}\n", escaped(loss));
  print_adapter(out, mapped.plan());
  print_notes(out, mapped.plan());
  const MapRounding rounding = mapped.targets().rounding();
  if (rounding.overflows > 0) {
    out.print("{} became infinite\n", counted(rounding.overflows, "number"));
  }
  if (rounding.inexact > 0) {
    out.print(
        "{} rounded, so that the inverse does not give them back\n",
        rounding.inexact == 1 ? "1 number was" : counted(rounding.inexact, "number") + " were");
  }
  if (const std::uint64_t lost = mapped.targets().lost_elements(); lost > 0) {
    out.print("{} other than 0 lost where the map says 'pad'\n",
              lost == 1 ? "1 number was" : counted(lost, "number") + " were");
  }
}

void print_map_json(Output& out, const MapStage& stage, bool reverse,
                    const std::vector<Written>& written, const std::optional<std::string>& unread) {
  const auto& [map, mapped] = stage;
  const MapPlan& plan = mapped.plan();
  JsonWriter json(out);
  json.begin_object();
  json.member("map", map.name());
  json.member("hash", to_hex(map.hash()));
  json.member("reverse", reverse);
  json.member("exact", is_exact(plan));
  json.key("not_invertible");
  json.begin_array();
  for (const std::string& problem : inverse_problems(map, plan, reverse)) json.value(problem);
  json.end_array();
  json.key("losses");
  json.begin_array();
  for (const std::string& loss : losses_of(mapped)) json.value(loss);
  json.end_array();
  json.key("rules");
  json.begin_array();
  for (std::size_t i = 0; i < plan.rules().size(); ++i) {
    const MapRuleCount& count = plan.rules()[i];
    json.begin_object();
    json.member("rule", map.parts().rules[i].text);
    json.member("sources", count.sources);
    json.member("targets", count.targets);
    json.member("work", count.targets == 0 ? std::string_view("drop") : work_name(count.work));
    json.end_object();
  }
  json.end_array();
  write_adapter(json, plan);
  write_notes(json, plan);
  write_totals(json, mapped);
  if (unread) json.member("output", std::string_view(*unread));
  if (!written.empty()) {
    json.key("files");
    json.begin_array();
    for (const Written& each : written) {
      json.begin_object();
      write_written_members(json, each);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  out.put('\n');
}

Result<void> print_explanation(Output& out, const MapStage& stage, const std::string& name,
                               const std::optional<std::string>& unread, bool as_json) {
  const auto& [map, mapped] = stage;
  const MapPlan& plan = mapped.plan();
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < plan.targets().size() && !found; ++i) {
    const MapTarget& target = plan.targets()[i];
    if (target.name == name ||
        std::find(target.tied.begin(), target.tied.end(), name) != target.tied.end()) {
      found = i;
    }
  }
  if (!found) {
    for (const MapPlan::Dropped& dropped : plan.dropped()) {
      if (plan.leaves()[dropped.leaf].name != name) continue;
      return fail(ErrorCode::kNotFound,
                  "the map makes nothing of " + escaped(name) + ": " +
                      (dropped.rule == MapTarget::kKept ? std::string("\"rest\" drops it")
                                                        : rule_name(dropped.rule) + " drops it"));
    }
    return fail(ErrorCode::kNotFound, "the map makes nothing called " + escaped(name) +
                                          hint_for(plan, name) + "; --plan says what it makes");
  }
  const MapTarget& target = plan.targets()[*found];
  if (as_json) {
    JsonWriter json(out);
    json.begin_object();
    write_target_members(json, mapped, target);
    json.key("pieces");
    json.begin_array();
    for (const MapPiece& piece : target.pieces) {
      json.begin_object();
      if (piece.source != MapPiece::kZeros) json.member("source", plan.leaves()[piece.source].name);
      json.member("from", piece.from);
      json.member("to", piece.to);
      json.key("loops");
      json.begin_array();
      for (const MapLoop& loop : piece.loops) {
        json.begin_object();
        json.member("count", loop.count);
        json.member("from", loop.from);
        json.member("to", loop.to);
        json.end_object();
      }
      json.end_array();
      json.end_object();
    }
    json.end_array();
    if (unread) json.member("output", std::string_view(*unread));
    json.end_object();
    out.put('\n');
    return {};
  }
  out.print("{}", escaped(target.name));
  for (const std::string& tied : target.tied) out.print(" = {}", escaped(tied));
  if (is_tensor(plan, target)) {
    out.print(" {} {}", dtype_name(target.dtype), shape_text(target.shape));
  }
  out.print("\n  {}: {}\n", rule_name(target.rule), work_name(target.work));
  if (target.rule != MapTarget::kKept) {
    out.print("  {}\n", shortened(escaped(map.parts().rules[target.rule].text), kMaxMessageBytes));
  }
  constexpr std::size_t kMostShown = 20;
  const auto sources = target.sources();
  for (std::size_t i = 0; i < sources.size() && i < kMostShown; ++i) {
    const MapLeaf& leaf = plan.leaves()[sources[i]];
    out.print("  from {}", mention_text(leaf.name));
    if (leaf.is_tensor) out.print(" {} {}", dtype_name(leaf.dtype), shape_text(leaf.shape));
    if (const auto& origin = mapped.origin(sources[i]); origin && mapped.inputs().size() > 1) {
      out.print(" in {}", escaped(mapped.inputs()[origin->input].name));
    }
    out.put('\n');
  }
  if (sources.size() > kMostShown) out.print("  and {} more\n", sources.size() - kMostShown);
  print_unread(out, unread);
  return {};
}

Result<void> write_ledger(Sink& sink, const std::vector<MapStage>& stages) {
  Output out(sink);
  for (const MapStage& stage : stages) write_ledger(out, stage);
  if (auto ok = out.finish(); !ok) return ok;
  return sink.commit();
}

}  // namespace espalier::cli
