// espalier merge: several checkpoints as one.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/opening/command.h"
#include "cli/opening/content.h"
#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/writing/output_name.h"
#include "cli/writing/write_result.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/tables.h"
#include "espalier/tree/follow.h"

namespace espalier::cli {
namespace {

struct MergeOptions {
  CommonOptions common;
  TargetOptions write;
  std::vector<std::string> files;  // without -o, the last one is OUT
  std::optional<std::string> output;
  std::string on_conflict = "error";
  bool flat = false;
};

// What one file changed in the files before it.
struct Changes {
  std::string file;
  Losses replaced;
  Losses added;
  // Says that an added value is none that was there, though its name reads like one; or empty.
  std::string hint;
};

std::string with_article(Kind kind) {
  const std::string name(kind_name(kind));
  return (name.front() == 'i' ? "an " : "a ") + name;
}

std::uint64_t count_tensors(const Value& value) {
  std::uint64_t count = value.kind() == Kind::kTensor ? 1 : 0;
  for (const Value& child : value.children()) count += count_tensors(child);
  return count;
}

// "a tensor", "a list with 4 tensors".
std::string described(const Value& value) {
  const std::uint64_t tensors = is_container(value.kind()) ? count_tensors(value) : 0;
  return with_article(value.kind()) + (tensors > 0 ? " with " + counted(tensors, "tensor") : "");
}

const Value* find_child(const Value& parent, const KeyView& key) {
  if (has_keys(parent.kind())) return parent.find(Key(key));
  const auto children = parent.children();
  const bool is_there =
      key.is_int && key.integer >= 0 && static_cast<std::uint64_t>(key.integer) < children.size();
  return is_there ? &children[static_cast<std::size_t>(key.integer)] : nullptr;
}

// What a name that `dict` lacks means if it is split at its dots, or if its digits are an integer.
struct Meaning {
  std::string path;  // from the dict on
  bool has_int_keys = false;
};

std::optional<Meaning> find_meaning(const Value& dict, const KeyView& name) {
  if (name.is_int) return std::nullopt;
  const auto integer = read_int_key(name.text);
  Meaning meaning;
  const Value* at = &dict;
  const auto missing =
      follow(KeyPath{integer ? Key(*integer) : Key(name)}, [&](const KeyView& key) {
        const Value* const child = find_child(*at, key);
        if (child == nullptr) return false;
        append_path(meaning.path, key, DigitMarks(at->keys()).of(key));
        meaning.has_int_keys = meaning.has_int_keys || key.is_int;
        at = child;
        return true;
      });
  return missing ? std::nullopt : std::optional(std::move(meaning));
}

// A NaN is the same as itself, and -0 is not 0.
bool are_same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Whether two scalars, or sets of them, say the same, so that replacing one by the other changes
// nothing.
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
      return are_same_bits(*a.as_double(), *b.as_double());
    case Kind::kComplex128:
      return are_same_bits(a.as_complex()->real(), b.as_complex()->real()) &&
             are_same_bits(a.as_complex()->imag(), b.as_complex()->imag());
    case Kind::kString:
      return *a.as_string() == *b.as_string();
    case Kind::kBytes:
      return *a.as_bytes() == *b.as_bytes();
    case Kind::kSet:
      return std::equal(a.children().begin(), a.children().end(), b.children().begin(),
                        b.children().end(), is_same_scalar);
    default:
      return false;
  }
}

// The content hashes that the files have of their tensors. It shares the tensors: at the address of
// one that was replaced and freed, a later file could have another.
using Hashes = std::unordered_map<std::shared_ptr<const Tensor>, Hash128>;

// `value` was made of `node`. Recurses as deep as the tree.
void add_hashes(const NodeRef& node, const Value& value, Hashes& hashes) {
  if (const auto tensor = value.as_tensor()) {
    const auto hash = node.tensor()->content_hash();
    if (hash) hashes.emplace(tensor, *hash);
  }
  const auto children = value.children();
  for (std::uint32_t i = 0; i < children.size(); ++i) {
    add_hashes(node.child(i), children[i], hashes);
  }
}

// Reads both up to the first difference. What cannot be read differs: the save says why, if it
// needs it.
bool have_same_bytes(const Tensor& a, const Tensor& b) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
  const auto bytes = tensor_bytes(a.dtype, a.shape, a.block());
  if (!bytes) return false;
  std::vector<std::byte> left(static_cast<std::size_t>(std::min(kBlock, *bytes)));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t at = 0; at < *bytes; at += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, *bytes - at));
    const auto mine = std::span(left).first(count);
    const auto other = std::span(right).first(count);
    if (!a.data.read(at, mine) || !b.data.read(at, other)) return false;
    if (!std::equal(mine.begin(), mine.end(), other.begin())) return false;
  }
  return true;
}

bool is_same_tensor(const std::shared_ptr<const Tensor>& mine,
                    const std::shared_ptr<const Tensor>& other, const Hashes& hashes) {
  const Tensor& a = *mine;
  const Tensor& b = *other;
  if (a.dtype != b.dtype || a.shape != b.shape || a.axis_names != b.axis_names ||
      a.block_name != b.block_name || a.block_elements != b.block_elements ||
      a.block_bytes != b.block_bytes) {
    return false;
  }
  const auto my_hash = hashes.find(mine);
  const auto other_hash = hashes.find(other);
  const bool have_hashes = my_hash != hashes.end() && other_hash != hashes.end();
  return have_hashes ? my_hash->second == other_hash->second : have_same_bytes(a, b);
}

// Decides what becomes of values that two files have at one path: the later one wins, but a
// container against anything else is a conflict, and what is the same stays.
class Rule {
 public:
  Rule(const MergeOptions& options, std::string prefix, const Hashes& hashes, Changes& changes)
      : options_(options), prefix_(std::move(prefix)), hashes_(hashes), changes_(changes) {}

  Result<Value::OnBoth> operator()(const Value& mine, const Value& other,
                                   const std::function<std::string()>& path) const {
    auto decision = Value::later_wins(mine, other, path);
    if (decision == Value::OnBoth::kJoin) note_added(mine, other, path);
    if (!decision || *decision != Value::OnBoth::kReplace) return decision;
    if (is_same(mine, other)) return Value::OnBoth::kKeep;
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
    changes_.replaced.add(where, described(mine));
    return Value::OnBoth::kReplace;
  }

  // Notes the children that `other` adds to `mine`, at a path.
  void note_added(const Value& mine, const Value& other,
                  const std::function<std::string()>& path) const {
    std::vector<KeyView> there;
    for (const Key& key : mine.keys()) there.push_back(key.view());
    std::sort(there.begin(), there.end());
    for (std::size_t i = 0; i < other.keys().size(); ++i) {
      const KeyView key = other.keys()[i].view();
      if (std::binary_search(there.begin(), there.end(), key)) continue;
      if (changes_.added.count() >= Losses::kKept) {
        // Their paths are not listed; there may be millions, and each takes time.
        changes_.added.add("", "");
        continue;
      }
      const std::string parent = path();
      std::string where = parent;
      append_path(where, key, DigitMarks(mine.keys()).of(key));
      changes_.added.add(prefix_ + where, described(other.children()[i]));
      if (changes_.hint.empty()) changes_.hint = hint(mine, key, parent, where);
    }
  }

 private:
  bool is_same(const Value& mine, const Value& other) const {
    if (mine.kind() != Kind::kTensor || other.kind() != Kind::kTensor) {
      return is_same_scalar(mine, other);
    }
    return mine.has_label() == other.has_label() && mine.label() == other.label() &&
           is_same_tensor(mine.as_tensor(), other.as_tensor(), hashes_);
  }

  // What to say of a new child of `mine`, whose name may have been meant as one that is there.
  std::string hint(const Value& mine, const KeyView& key, const std::string& parent,
                   const std::string& where) const {
    if (!prefix_.empty()) return {};  // names of metadata are not nested
    const auto meaning = find_meaning(mine, key);
    if (!meaning) return {};
    const std::string there = (parent.empty() ? "" : parent + "/") + meaning->path;
    if (meaning->has_int_keys) {
      return where + " is new beside the existing " + there +
             ", whose path has int keys or positions; a file with exactly this path replaces it";
    }
    if (options_.common.nest) return {};  // has been tried
    return where + " is a new name " + (parent.empty() ? "at the root" : "in " + parent) +
           "; --nest makes it the existing " + there;
  }

  const MergeOptions& options_;
  std::string prefix_;
  const Hashes& hashes_;
  Changes& changes_;
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
  std::vector<Changes> changes;
};

Result<void> merge_one(Value& to, Value from, const Rule& rule) {
  rule.note_added(to, from, [] { return std::string(); });
  return to.merge(std::move(from), rule);
}

tl::expected<Merged, Failure> merge_all(const std::vector<std::string>& files,
                                        const MergeOptions& options) {
  Merged merged;
  Hashes hashes;
  for (const std::string& name : files) {
    auto content = read_content(name, options.common,
                                options.flat ? CarriedTree::kLeave : CarriedTree::kRestore, false);
    if (!content) return tl::unexpected<Failure>(std::move(content.error()));
    tell_losses(shown_name(name), content->file.checkpoint().catalog());
    // A carried tree has other nodes than its file, which has no hashes.
    if (!content->was_carried) add_hashes(content->file.state(), content->state, hashes);
    Value metadata = own_metadata(std::move(content->metadata));
    if (&name == &files.front()) {
      merged.state = std::move(content->state);
      merged.metadata = std::move(metadata);
      continue;
    }
    Changes& changes = merged.changes.emplace_back();
    changes.file = name;
    auto ok =
        merge_one(merged.state, std::move(content->state), Rule(options, "", hashes, changes));
    if (ok && !options.write.no_metadata) {
      ok = merge_one(merged.metadata, std::move(metadata),
                     Rule(options, "(metadata)/", hashes, changes));
    }
    if (!ok) return about(name, ok);
  }
  return merged;
}

// Writes a member with the files that have such changes.
void write_changes(JsonWriter& json, std::string_view name, const std::vector<Changes>& changes,
                   Losses Changes::*kind) {
  json.key(name);
  json.begin_array();
  for (const Changes& of_file : changes) {
    const Losses& values = of_file.*kind;
    if (values.empty()) continue;
    json.begin_object();
    json.member("file", shown_name(of_file.file));
    json.member("count", values.count());
    json.key("first");
    json.begin_array();
    for (const Loss& value : values.first()) json.value(value.path);
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

void print_changes(Output& out, const Changes& changes) {
  const auto print = [&](const char* verb, const Losses& values) {
    if (values.empty()) return;
    out.print("{} {} {}: {}\n", escaped(shown_name(changes.file)), verb,
              counted(values.count(), "value"), escaped(values.to_string()));
  };
  print("replaced", changes.replaced);
  print("added", changes.added);
  if (!changes.hint.empty()) out.print("{}\n", escaped(changes.hint));
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
  write_changes(json, "replaced", merged.changes, &Changes::replaced);
  write_changes(json, "added", merged.changes, &Changes::added);
  json.end_object();
  out.put('\n');
}

Outcome run_merge(const MergeOptions& options, Output& out) {
  std::vector<std::string> files = options.files;
  const auto output = take_output(files, options.output, 2);
  if (!output) return fail_about({}, output.error());
  const std::string& target = *output;
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
    for (const Changes& changes : merged->changes) print_changes(out, changes);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_merge(CLI::App& app, Action& action) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* command = app.add_subcommand(
      "merge", "Write several checkpoints as one; where two have the same key, the later one wins");
  command
      ->add_option(
          "A B... OUT", options->files,
          "Two or more checkpoints (files or URLs), and the file to write: it ends in .espalier or "
          ".safetensors, or --to selects the format")
      ->type_name("")
      ->required();
  add_output_option(*command, options->output,
                    "The file to write; then all other names are inputs");
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
  add_quiet_option(*command, options->common, "lines about what was written, replaced and added");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier merge base.espalier adapter.espalier merged.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_merge(*options, out); }; });
}

}  // namespace espalier::cli
