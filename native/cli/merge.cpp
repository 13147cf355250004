// espalier merge: several checkpoints as one.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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
#include "espalier/format/shape.h"

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

// Decides what becomes of values that two files have at one path: the later one wins, containers
// are merged, and a container against anything else is a conflict.
class Rule {
 public:
  Rule(const Options& options, std::string prefix, const Hashes& hashes, Losses& replaced)
      : options_(options), prefix_(std::move(prefix)), hashes_(hashes), replaced_(replaced) {}

  Result<Value::OnBoth> operator()(const Value& mine, const Value& other,
                                   const std::function<std::string()>& path) const {
    if (Value::can_join(mine, other)) return Value::OnBoth::kJoin;
    // A part that `extract` cut from a list holds placeholders for the other elements.
    if (other.kind() == Kind::kPlaceholder && mine.as_tensor()) return Value::OnBoth::kKeep;
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
    replaced_.add(where, with_article(mine.kind()));
    return Value::OnBoth::kReplace;
  }

 private:
  bool is_same(const Value& mine, const Value& other) const {
    if (mine.kind() != Kind::kTensor || other.kind() != Kind::kTensor) {
      return is_same_scalar(mine, other);
    }
    return mine.has_label() == other.has_label() && mine.label() == other.label() &&
           is_same_tensor(mine.as_tensor(), other.as_tensor(), hashes_);
  }

  const Options& options_;
  std::string prefix_;
  const Hashes& hashes_;
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
  Hashes hashes;
  for (const std::string& name : files) {
    auto content = read_content(name, options.common,
                                options.flat ? CarriedTree::kLeave : CarriedTree::kRestore, false);
    if (!content) return tl::unexpected<Failure>(std::move(content.error()));
    // A carried tree has other nodes than its file, which has no hashes.
    if (!content->was_carried) add_hashes(content->file.state(), content->state, hashes);
    Value metadata = own_metadata(std::move(content->metadata));
    if (&name == &files.front()) {
      merged.state = std::move(content->state);
      merged.metadata = std::move(metadata);
      continue;
    }
    Replaced replaced{name, {}};
    auto ok =
        merged.state.merge(std::move(content->state), Rule(options, "", hashes, replaced.values));
    if (ok && !options.write.no_metadata) {
      ok = merged.metadata.merge(std::move(metadata),
                                 Rule(options, "(metadata)/", hashes, replaced.values));
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
