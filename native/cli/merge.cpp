// espalier merge: several checkpoints as one.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "content.h"
#include "json_writer.h"
#include "text.h"
#include "urls.h"
#include "write_result.h"

#include "espalier/base/counted.h"
#include "espalier/foreign/flatten.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/tables.h"

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  TargetOptions write;
  std::vector<std::string> files;  // the last one is OUT
  std::string on_conflict = "error";
  bool flat = false;
};

// What one file replaced in the files before it.
struct Replaced {
  std::string file;
  Losses values;
};

std::string with_article(Kind kind) {
  const std::string name(kind_name(kind));
  return (name.front() == 'i' ? "an " : "a ") + name;
}

// Whether two scalars say the same, so that replacing one by the other changes nothing.
bool is_same_scalar(const Value& a, const Value& b) {
  if (a.kind() != b.kind() || a.has_label() != b.has_label() || a.label() != b.label()) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt64:
      return a.as_int64() == b.as_int64();
    case Kind::kBigInt:
      return *a.as_bigint() == *b.as_bigint();
    case Kind::kFloat64:
      return a.as_double() == b.as_double();
    case Kind::kComplex128:
      return a.as_complex() == b.as_complex();
    case Kind::kString:
      return *a.as_string() == *b.as_string();
    case Kind::kBytes:
      return *a.as_bytes() == *b.as_bytes();
    default:
      return false;
  }
}

// Decides what becomes of values that two files have at one path: the later one wins, containers
// are merged, and a container against anything else is a conflict.
class Rule {
 public:
  Rule(const Options& options, std::string prefix, Losses& replaced)
      : options_(options), prefix_(std::move(prefix)), replaced_(replaced) {}

  Result<Value::OnBoth> operator()(const Value& mine, const Value& other,
                                   const std::function<std::string()>& path) const {
    if (Value::can_join(mine, other)) return Value::OnBoth::kJoin;
    // A part that `extract` cut from a list holds placeholders for the other elements.
    if (other.kind() == Kind::kPlaceholder && mine.as_tensor()) return Value::OnBoth::kKeep;
    if (is_same_scalar(mine, other)) return Value::OnBoth::kKeep;
    const bool differ = is_container(mine.kind()) != is_container(other.kind()) ||
                        (is_container(mine.kind()) && mine.kind() != other.kind());
    if (differ && options_.on_conflict == "first") return Value::OnBoth::kKeep;
    const std::string where = prefix_ + path();
    if (differ && options_.on_conflict == "error") {
      return fail(ErrorCode::kNameCollision,
                  "this is " + with_article(other.kind()) + ", and " + with_article(mine.kind()) +
                      " in the files before; --on-conflict=last takes this one, and "
                      "--on-conflict=first keeps the other",
                  Error::kNoOffset, where);
    }
    replaced_.add(where, with_article(mine.kind()));
    return Value::OnBoth::kReplace;
  }

 private:
  const Options& options_;
  std::string prefix_;
  Losses& replaced_;
};

// The metadata of one file, without facts that hold for its own bytes alone.
Value own_metadata(Value metadata) {
  forget_header(metadata);
  if (metadata.find(Key(kCarriedTreeKey)) != nullptr) {
    // With --flat. The tree would not fit the merged tensors.
    (void)metadata.erase(KeyPath{Key(kCarriedTreeKey)});
  }
  // Says that the file has a __metadata__ with nothing in it.
  if (metadata.label() == kEmptyMetadataLabel) return Value::dict();
  return metadata;
}

struct Merged {
  Value state;
  Value metadata;
  std::vector<Replaced> replaced;
};

tl::expected<Merged, Failure> merge_all(const std::vector<std::string>& files,
                                        const Options& options) {
  Merged merged;
  for (const std::string& name : files) {
    auto content = read_content(name, options.common,
                                options.flat ? CarriedTree::kLeave : CarriedTree::kRestore, false);
    if (!content) return tl::unexpected<Failure>(std::move(content.error()));
    Value metadata = own_metadata(std::move(content->metadata));
    if (&name == &files.front()) {
      merged.state = std::move(content->state);
      merged.metadata = std::move(metadata);
      continue;
    }
    Replaced replaced{name, {}};
    auto ok = merged.state.merge(std::move(content->state), Rule(options, "", replaced.values));
    if (ok && !options.write.no_metadata) {
      ok =
          merged.metadata.merge(std::move(metadata), Rule(options, "(metadata)/", replaced.values));
    }
    if (!ok) return about(name, ok);
    if (!replaced.values.empty()) merged.replaced.push_back(std::move(replaced));
  }
  return merged;
}

void print_json(Output& out, const std::vector<std::string>& files, const Written& written,
                const Merged& merged) {
  JsonWriter json(out);
  json.begin_object();
  json.key("files");
  json.begin_array();
  for (const std::string& file : files) json.value(shown_name(file));
  json.end_array();
  json.member("written", written.route.target);
  json.member("bytes", written.bytes);
  json.member("left_out", written.left_out.count());
  json.key("replaced");
  json.begin_array();
  for (const Replaced& replaced : merged.replaced) {
    json.begin_object();
    json.member("file", shown_name(replaced.file));
    json.member("count", replaced.values.count());
    json.key("first");
    json.begin_array();
    for (const Loss& value : replaced.values.first()) json.value(value.path);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  out.put('\n');
}

Outcome run(const Options& options, Output& out) {
  std::vector<std::string> files = options.files;
  if (files.size() < 3) {
    return fail_about("", {ErrorCode::kInvalidArgument, Error::kNoOffset, "",
                           "OUT is missing: merging takes two or more checkpoints and then the "
                           "file to write, as in `espalier merge A B OUT`"});
  }
  const std::string target = std::move(files.back());
  files.pop_back();
  if (auto ok = check_target(target, options.write); !ok) return about(target, ok);
  auto format = target_format(target, options.write, Formats::kTrees);
  if (!format) return about(target, format);
  auto merged = merge_all(files, options);
  if (!merged) return tl::unexpected<Failure>(std::move(merged.error()));
  const auto written = write_file({"", target}, *format, merged->state, std::move(merged->metadata),
                                  options.write, options.common);
  if (!written) return tl::unexpected<Failure>(written.error());
  if (written->stopped_by != 0) return ended_by(written->stopped_by);
  if (options.common.json) {
    print_json(out, files, *written, *merged);
  } else if (!options.common.quiet) {
    print_written(out, *written);
    for (const Replaced& replaced : merged->replaced) {
      out.print("{} replaced {}: {}\n", escaped(shown_name(replaced.file)),
                counted(replaced.values.count(), "value"), escaped(replaced.values.to_string()));
    }
  }
  return ExitCode::kOk;
}

}  // namespace

void add_merge(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "merge", "Write several checkpoints as one; where two have the same key, the later one wins");
  command
      ->add_option(
          "A B... OUT", options->files,
          "Two or more checkpoints (files or URLs), and the file to write: it ends in .espalier or "
          ".safetensors, or --to selects the format")
      ->type_name("")
      ->required();
  command
      ->add_option("--on-conflict", options->on_conflict,
                   "What to do where one has a container and another has something else: error "
                   "(the default), first, which keeps what was there, or last, which replaces it")
      ->check(CLI::IsMember({"error", "first", "last"}).description(""))
      ->type_name("error|first|last");
  command->add_flag("--flat", options->flat,
                    "Take safetensors files' tensors as they are, even if they carry a tree");
  add_target_options(*command, options->write, Formats::kTrees);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written and replaced");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier merge base.espalier adapter.espalier merged.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
