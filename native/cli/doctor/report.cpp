#include "cli/doctor/report.h"

#include <map>

#include <fmt/format.h>

#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {
namespace {

constexpr Severity kSeverities[] = {Severity::kFault, Severity::kWarning, Severity::kNote};

void append_part(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : ", ") + part;
}

// Of findings that count, or with another checkpoint, of new ones.
std::string findings_text(const Diagnosis& diagnosis) {
  const bool is_compared = !diagnosis.since.empty();
  std::string text;
  // No finding of the numbers, and told before them.
  if (diagnosis.code > 0) append_part(text, counted(diagnosis.code, "name") + " of code");
  const std::size_t before = text.size();
  for (const Severity severity : kSeverities) {
    const std::uint64_t count = diagnosis.counting(severity);
    if (count == 0) continue;
    append_part(text,
                counted(count, (is_compared ? "new " : "") + std::string(severity_name(severity))));
  }
  if (is_compared) {
    if (text.size() == before) append_part(text, "nothing new");
    text += " since " + escaped(diagnosis.since);
    if (const auto same = diagnosis.with(Standing::kSame); same > 0) {
      append_part(text, fmt::format("{} the same", same));
    }
    if (const auto gone = diagnosis.with(Standing::kGone); gone > 0) {
      append_part(text, fmt::format("{} gone", gone));
    }
    if (const auto open = diagnosis.with(Standing::kOpen); open > 0) {
      append_part(text, fmt::format("{} open, for tensors that were not examined here", open));
    }
  }
  if (const auto ignored = diagnosis.ignored(); ignored > 0) {
    append_part(text, fmt::format("{} ignored", ignored));
  }
  return text.empty() ? "nothing found" : text;
}

void print_finding(Output& out, const ToldFinding& told, const std::string& before) {
  const Finding& finding = told.finding;
  const bool is_plain = finding.severity == Severity::kNote || !told.counts();
  std::string line =
      before + out.colors().paint(is_plain ? Style::kPlain : Style::kDamage,
                                  fmt::format("{:<8}", severity_name(finding.severity)));
  line += out.colors().paint(Style::kPath, path_text(finding.path)) + ": " + finding_text(finding);
  line += fmt::format(" [{}]", health_rule_name(finding.rule));
  if (told.milder) line += fmt::format(" (it was a {})", severity_name(*told.milder));
  if (told.ignored_by) line += " (" + ignored_text(*told.ignored_by) + ")";
  out.write(line + "\n");
}

std::string column_of(Standing standing) {
  return standing == Standing::kAlone ? "" : fmt::format("{:<5}", standing_name(standing));
}

}  // namespace

std::string finding_text(const Finding& finding) {
  std::string text = escaped(finding.text);
  if (!finding.other.empty()) text += " " + path_text(finding.other);
  return text;
}

std::string_view standing_name(Standing standing) {
  switch (standing) {
    case Standing::kNew:
      return "new";
    case Standing::kSame:
      return "same";
    case Standing::kGone:
      return "gone";
    case Standing::kOpen:
      return "open";
    default:
      return "";
  }
}

std::string ignored_text(const IgnoresOfFile::Match& match) {
  std::string text = match.list->describe(*match.entry);
  if (!match.entry->reason.empty()) {
    text += ": " + escaped(shortened(match.entry->reason, kMaxMentionBytes));
  }
  return text;
}

std::string beside_text(const Diagnosis& diagnosis, const IgnoreList& list) {
  const std::uint64_t hidden = diagnosis.hidden_by(list);
  return escaped(list.name) + ": " +
         (hidden == 0 ? "ignores no finding here" : counted(hidden, "finding") + " ignored");
}

std::string summary_text(const Diagnosis& diagnosis) {
  const Examination& examination = diagnosis.examination;
  std::string text = findings_text(diagnosis);
  text += fmt::format("; {} examined, {}", counted(examination.tensors, "tensor"),
                      format_size(examination.bytes));
  if (examination.placeholders > 0) {
    text += fmt::format("; {} without elements", counted(examination.placeholders, "placeholder"));
  }
  if (examination.alone > 0) {
    text += fmt::format("; {} {} like no other: compared with none", examination.alone,
                        examination.alone == 1 ? "matrix is" : "matrices are");
  }
  if (examination.is_of_some) text += "; compared with each other alone";
  if (examination.opaque > 0) {
    text += fmt::format("; {} of blocks that are not decoded: compared for equality only",
                        counted(examination.opaque, "tensor"));
  }
  return text;
}

void print_diagnosis(Output& out, const Listing& listing, const Diagnosis& diagnosis) {
  print_code(out, *diagnosis.catalog);
  std::map<HealthRule, std::size_t> counts;
  for (const Standing standing :
       {Standing::kAlone, Standing::kNew, Standing::kGone, Standing::kOpen, Standing::kSame}) {
    for (const ToldFinding& told : diagnosis.findings) {
      if (told.is_ignored() || told.standing != standing) continue;
      if (listing.quiet && told.finding.severity == Severity::kNote) continue;
      if (++counts[told.finding.rule] > kShownOfRule && !listing.all) continue;
      print_finding(out, told, column_of(standing));
    }
  }
  for (const auto& [rule, count] : counts) {
    if (count <= kShownOfRule || listing.all) continue;
    out.print("        {} more of {}: use --all\n", count - kShownOfRule, health_rule_name(rule));
  }
  if (listing.all) {
    for (const ToldFinding& told : diagnosis.findings) {
      if (told.is_ignored()) print_finding(out, told, "ignored ");
    }
  }
  for (const IgnoreList* const list : diagnosis.ignore_lists) {
    if (list->is_beside) out.print("{}\n", beside_text(diagnosis, *list));
  }
  out.print("{}: {}\n", escaped(diagnosis.file), summary_text(diagnosis));
}

void write_finding_members(JsonWriter& json, const Finding& finding) {
  json.member("severity", severity_name(finding.severity));
  json.member("rule", health_rule_name(finding.rule));
  json.member("path", finding.path);
  if (!finding.other.empty()) json.member("other", finding.other);
  json.member("text", finding.text);
  if (finding.at) json.member("at", *finding.at);
}

void write_diagnosis(JsonWriter& json, const Diagnosis& diagnosis) {
  const Examination& examination = diagnosis.examination;
  json.begin_object();
  json.member("file", diagnosis.file);
  write_code(json, *diagnosis.catalog);
  json.member("tensors", examination.tensors);
  json.member("bytes", examination.bytes);
  json.member("placeholders", examination.placeholders);
  json.member("opaque", examination.opaque);
  json.member("alone", examination.alone);
  for (const Severity severity : kSeverities) {
    json.member(std::string(severity_name(severity)) + "s", diagnosis.listed(severity));
  }
  json.member("ignored", diagnosis.ignored());
  if (!diagnosis.since.empty()) json.member("since", diagnosis.since);
  json.key("findings");
  json.begin_array();
  for (const ToldFinding& told : diagnosis.findings) {
    if (!told.is_listed()) continue;
    json.begin_object();
    write_finding_members(json, told.finding);
    if (told.standing != Standing::kAlone) json.member("standing", standing_name(told.standing));
    if (told.milder) json.member("before", severity_name(*told.milder));
    json.end_object();
  }
  json.end_array();
  if (!diagnosis.since.empty()) {
    for (const Standing standing : {Standing::kGone, Standing::kOpen}) {
      json.key(standing_name(standing));
      json.begin_array();
      for (const ToldFinding& told : diagnosis.findings) {
        if (told.is_ignored() || told.standing != standing) continue;
        json.begin_object();
        write_finding_members(json, told.finding);
        json.end_object();
      }
      json.end_array();
    }
  }
  if (!diagnosis.ignore_lists.empty()) {
    json.key("ignored_findings");
    json.begin_array();
    for (const ToldFinding& told : diagnosis.findings) {
      if (!told.is_ignored()) continue;
      json.begin_object();
      write_finding_members(json, told.finding);
      json.member("by", told.ignored_by->entry->text);
      if (!told.ignored_by->entry->reason.empty()) {
        json.member("reason", told.ignored_by->entry->reason);
      }
      json.end_object();
    }
    json.end_array();
    json.key("ignore_lists");
    json.begin_array();
    for (const IgnoreList* const list : diagnosis.ignore_lists) {
      json.begin_object();
      json.member("name", list->name);
      json.member("beside", list->is_beside);
      json.member("ignored", diagnosis.hidden_by(*list));
      // So far, of the files up to this one.
      json.key("unmatched");
      json.begin_array();
      for (const IgnoreEntry& entry : list->entries) {
        if (entry.matches == 0) json.value(entry.text);
      }
      json.end_array();
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace espalier::cli
