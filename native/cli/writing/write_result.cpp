#include "cli/writing/write_result.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "cli/opening/urls.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "cli/writing/model_metadata.h"
#include "cli/writing/one_tensor.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/codec/compression_level.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"
#include "espalier/tree/elements.h"
#include "files/delta/rewrite_references.h"
#include "files/folder/needed_files.h"
#include "files/save/model_folder.h"
#include "files/save/shard_split.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

bool is_sharded(const TargetOptions& options) {
  return !options.max_shard_size.empty() || !options.shards_like.empty();
}

Unrepresentable policy_of(const TargetOptions& options) {
  if (options.unrepresentable == "drop") return Unrepresentable::kDrop;
  return options.unrepresentable == "metadata" ? Unrepresentable::kMetadata
                                               : Unrepresentable::kError;
}

// The compression level that --compress selects.
Result<int> compression_level(const TargetOptions& options) {
  const std::string& text = options.compress;
  if (text.empty()) return kNoCompression;
  if (text == "true") return kFastCompression;  // --compress alone
  int level = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--compress=" + text + " is not a level; use 1 (fast) to 9 (thorough), or 0 for none");
  }
  if (auto ok = check_compression_level(level); !ok) return propagate(ok);
  return level;
}

// Records the length of the file that a save makes. The target's name may not lead to it
// afterwards: the link /proc/self/fd/N still leads to the old file.
class MeasuringOps final : public InterruptibleOps {
 public:
  std::uint64_t length() const { return static_cast<std::uint64_t>(length_.load()); }

  int ftruncate(int fd, off_t length) override {
    const int result = InterruptibleOps::ftruncate(fd, length);
    if (result == 0) length_ = length;
    return result;
  }

  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    const ssize_t written = InterruptibleOps::pwrite(fd, bytes, size, offset);
    const off_t end = offset + written;
    off_t length = length_;
    while (written > 0 && length < end && !length_.compare_exchange_weak(length, end)) {
    }
    return written;
  }

 private:
  std::atomic<off_t> length_ = 0;
};

std::vector<std::string> format_names(Formats formats) {
  std::vector<std::string> names;
  for (const SaveFormat format : kSaveFormats) {
    if (formats == Formats::kAll || !holds_one_tensor(format)) {
      names.emplace_back(save_format_name(format));
    }
  }
  return names;
}

// The format that --to or the ending names.
Result<SaveFormat> named_format(const std::string& target, const TargetOptions& options,
                                Formats formats) {
  for (const SaveFormat format : kSaveFormats) {
    if (options.format == save_format_name(format)) return format;
  }
  // "model.safetensors.index.json"
  if (is_sharded(options) && model_names(fs::path(target).filename().string())) {
    return SaveFormat::kSafetensors;
  }
  const auto named = find_named_format(target);
  std::string why = "the name does not select a format";
  if (named && named->format) {
    if (formats == Formats::kAll || !holds_one_tensor(*named->format)) return *named->format;
    why = "the name ends in " + std::string(named->ending.text) +
          ", and such a file holds one tensor";
  } else if (named) {
    why = "the name ends in " + std::string(named->ending.text) + " (" +
          std::string(named->ending.description) + "), and such files cannot be written";
  }
  return fail(ErrorCode::kInvalidArgument,
              why + "; end it in " +
                  (formats == Formats::kAll ? ".espalier, .safetensors, .npy, .raw or .bin"
                                            : ".espalier or .safetensors") +
                  ", or pass --to");
}

// What options for several files need.
Result<void> check_sharded(const std::string& target, SaveFormat format,
                           const TargetOptions& options) {
  const char* const name = options.shards_like.empty() ? "--max-shard-size" : "--shards-like";
  if (format != SaveFormat::kSafetensors) {
    return fail(ErrorCode::kInvalidArgument, std::string(name) +
                                                 " is for safetensors files; end OUT in "
                                                 ".safetensors, or leave the option out");
  }
  if (options.unrepresentable == "metadata") {
    return fail(ErrorCode::kInvalidArgument,
                "--unrepresentable=metadata carries the tree in one file; leave " +
                    std::string(name) + " out, or use --unrepresentable=drop");
  }
  if (options.shards_like.empty()) {
    const auto size = parse_size(options.max_shard_size);
    if (!size) return propagate(size);
    if (*size == 0) {
      return fail(ErrorCode::kInvalidArgument, "--max-shard-size must be more than nothing");
    }
  }
  const auto names = model_names(fs::path(target).filename().string());
  if (!names) return propagate(names);
  return {};
}

Result<Losses> save_one_tensor(const std::string& target, SaveFormat format, const Value& state,
                               const TargetOptions& options, SaveOptions save_options,
                               Written& written) {
  auto one = find_one_tensor(state, save_options.metadata, options.unrepresentable == "drop");
  if (!one) return propagate(one);
  save_options.metadata = Value::dict();
  const Tensor& tensor = *one->tensor;
  auto saved = format == SaveFormat::kNpy ? save_npy(target, tensor, save_options)
                                          : save_raw(target, tensor, save_options);
  if (!saved) {
    if (saved.error().path.empty()) saved.error().path = one->path;
    if (saved.error().code == ErrorCode::kUnrepresentable) {
      saved.error().message += element_type(tensor.dtype) == ElementType::kFloat64
                                   ? "; `espalier extract --cast f32` converts it without loss, "
                                     "and --to raw writes its bytes"
                                   : "; --to raw writes its bytes";
    }
    return propagate(saved);
  }
  written.dtype = dtype_name(tensor.dtype);
  written.shape = tensor.shape;
  return std::move(one->left_out);
}

// The folder of a file, which is that of the program if the name has none.
fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The files that a save replaces or removes.
std::vector<std::string> replaced_files(const std::string& target, const TargetOptions& options) {
  if (!is_sharded(options)) return {target};
  const fs::path path = target;
  const auto names = model_names(path.filename().string());
  if (!names) return {target};
  std::vector<std::string> files;
  for (const std::string& name : files_of_model(path.parent_path(), *names, {})) {
    files.push_back((path.parent_path() / name).string());
  }
  return files;
}

// That no other file of the folder refers to `target`, which is about to be replaced: they would
// lose their base.
tl::expected<void, Failure> check_not_needed(const Route& route, const fs::path& target,
                                             const TargetOptions& options,
                                             const std::vector<std::string>& leaving_together) {
  const fs::path folder = folder_of(target);
  std::set<std::string> leaving{target.filename().string()};
  for (const std::string& file : leaving_together) leaving.insert(fs::path(file).filename());
  std::error_code ignored;
  if (options.replaces_base && !is_url(route.source) &&
      fs::equivalent(folder_of(route.source), folder, ignored)) {
    leaving.insert(fs::path(route.source).filename().string());
  }
  const auto needed = needed_files(folder, leaving);
  if (!needed) {
    Error error = needed.error();
    error.message += "; nothing was written, because it is unknown which files this one needs";
    return tl::unexpected<Failure>({folder.string(), std::move(error)});
  }
  const bool is_needed = std::any_of(needed->begin(), needed->end(), [&](const std::string& name) {
    return fs::equivalent(folder / name, target, ignored);
  });
  if (!is_needed) return {};
  return refuse(route.target,
                "other checkpoints of the folder refer to this file, and would lose their base; "
                "write another one, or `espalier flatten` those that need it first");
}

tl::expected<void, Failure> check_not_needed(
    const Route& route, const TargetOptions& options, const CommonOptions& common,
    const std::vector<std::string>& leaving_together = {}) {
  std::error_code ignored;
  if (!fs::exists(route.target, ignored)) return {};
  if (!options.replaces_base) {
    if (auto ok = common.kept->check(route.target); !ok) return about(route.target, ok);
  }
  if (auto ok = check_not_needed(route, route.target, options, leaving_together); !ok) return ok;
  // A link is followed, and the file that it leads to may be needed in its own folder.
  const fs::path target = fs::canonical(route.target, ignored);
  return target.empty() ? tl::expected<void, Failure>()
                        : check_not_needed(route, target, options, leaving_together);
}

}  // namespace

tl::expected<void, Failure> check_not_needed(const std::string& target,
                                             const TargetOptions& options,
                                             const CommonOptions& common) {
  return check_not_needed(Route{.source = {}, .target = target}, options, common);
}

namespace {

Result<Losses> save_model(const std::string& target, const Value& state, ShardOptions shards,
                          const TargetOptions& options, const SaveOptions& save_options,
                          Written& written) {
  if (!options.shards_like.empty()) {
    shards.like = options.shards_like;
  } else {
    const auto size = parse_size(options.max_shard_size);  // target_format() checked
    if (!size) return propagate(size);
    shards.max_bytes = *size;
  }
  auto saved = save_safetensors_model(target, state, shards, save_options);
  if (!saved) {
    // One of the files is the target as well.
    std::string& file = saved.error().file;
    if (!shards.like && folder_of(file) == folder_of(target)) file = target;
    return propagate(saved);
  }
  written.bytes = saved->bytes;
  if (!saved->index.empty()) {
    written.shards = std::move(saved->files);
    written.route.target = (fs::path(target).parent_path() / saved->index).string();
  } else {
    written.route.target = (fs::path(target).parent_path() / saved->files.front()).string();
  }
  return std::move(saved->left_out);
}

Result<Losses> save_any(const std::string& target, SaveFormat format, const Value& state,
                        const TargetOptions& options, const SaveOptions& save_options,
                        ShardOptions shards, const References* references, Written& written) {
  switch (format) {
    case SaveFormat::kEspalier:
      if (references != nullptr) {
        auto ok = write_with_references(target, state, *references, save_options);
        if (!ok) return propagate(ok);
        return Losses();
      }
      if (auto ok = save(target, state, save_options); !ok) return propagate(ok);
      return Losses();
    case SaveFormat::kSafetensors: {
      SaveOptions with_policy = save_options;
      with_policy.unrepresentable = policy_of(options);
      if (is_sharded(options)) {
        return save_model(target, state, std::move(shards), options, with_policy, written);
      }
      return save_safetensors(target, state, with_policy);
    }
    default:
      return save_one_tensor(target, format, state, options, save_options, written);
  }
}

}  // namespace

void add_target_options(CLI::App& command, TargetOptions& options, Formats formats) {
  command.option_defaults()->group(kWritingGroup);
  const std::vector<std::string> names = format_names(formats);
  std::string text = "The format to write, whatever OUT ends in";
  if (formats == Formats::kAll) text += "; npy and raw hold one tensor";
  std::string words;
  for (const std::string& name : names) words += (name == names.front() ? "" : "|") + name;
  command.add_option("--to", options.format, text)
      ->check(CLI::IsMember(names).description(""))
      ->type_name(words);
  add_compress_option(command, options);
  command
      .add_option(
          "--unrepresentable", options.unrepresentable,
          "What to do with values that the format cannot hold: error (the default), drop them, or "
          "metadata (safetensors), which carries the tree in the file's metadata and makes the way "
          "back exact")
      ->check(CLI::IsMember({"error", "drop", "metadata"}).description(""))
      ->type_name("error|drop|metadata");
  CLI::Option* const size =
      command
          .add_option("--max-shard-size", options.max_shard_size,
                      "Write a model in several safetensors files, as transformers does: at most "
                      "so much in each, and an index beside them")
          ->type_name("SIZE");
  command
      .add_option("--shards-like", options.shards_like,
                  "Write the files that this index names, model.safetensors.index.json, each with "
                  "the tensors that it had")
      ->type_name("INDEX")
      ->excludes(size);
  add_new_file_options(command, options);
}

void add_compress_option(CLI::App& command, TargetOptions& options) {
  command
      .add_flag("--compress", options.compress,
                "Compress tensors. --compress=LEVEL: 1 (the default) is fast; 2 to 9 suit sparse "
                "and structured tensors and are increasingly slow; 0 is none. Without this option "
                "nothing is compressed, even if the input is")
      ->type_name("")
      ->group(kWritingGroup);
}

void add_new_file_options(CLI::App& command, TargetOptions& options) {
  command.option_defaults()->group(kWritingGroup);
  command.add_flag("--no-metadata", options.no_metadata, "Leave the file's metadata out");
  command.add_flag("-f,--force", options.force, "Replace OUT if it exists");
  command.add_flag("--no-sync", options.no_sync,
                   "Do not wait for the disk; a power failure may then lose the file");
  command.option_defaults()->group("Options");
}

Result<void> check_target(const std::string& target, const TargetOptions& options) {
  if (auto ok = check_file_name(target, "output"); !ok) return ok;
  std::error_code error;
  const auto status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return fail(ErrorCode::kInvalidArgument, "this is not a regular file; choose another name");
  }
  if (options.espalier_only) {
    const auto named = find_named_format(target);
    if (named && named->format != SaveFormat::kEspalier) {
      return fail(ErrorCode::kInvalidArgument,
                  "the name ends in " + std::string(named->ending.text) +
                      ", and this command writes Espalier files; end it in .espalier, and use "
                      "`espalier convert` for other formats");
    }
  }
  if (options.force) return {};
  if (is_sharded(options)) {
    const fs::path path = target;
    const auto names = model_names(path.filename().string());
    for (const std::string& name :
         names ? std::vector{names->single, names->index} : std::vector<std::string>()) {
      if (!fs::exists(fs::symlink_status(path.parent_path() / name, error))) continue;
      return fail(ErrorCode::kInvalidArgument,
                  name + " exists; --force replaces the model that it belongs to");
    }
  }
  const auto itself = std::filesystem::symlink_status(target, error);
  if (std::filesystem::is_symlink(itself)) {
    return fail(ErrorCode::kInvalidArgument,
                "this is a symbolic link; --force writes to the file that it names");
  }
  if (!std::filesystem::exists(itself)) return {};
  return fail(ErrorCode::kInvalidArgument, "the file exists; --force replaces it");
}

Result<SaveFormat> target_format(const std::string& target, const TargetOptions& options,
                                 Formats formats) {
  const auto level = compression_level(options);
  if (!level) return propagate(level);
  auto format = named_format(target, options, formats);
  if (!format) return format;
  const std::string name(save_format_name(*format));
  if (*format != SaveFormat::kEspalier && *level != kNoCompression) {
    return fail(ErrorCode::kInvalidArgument,
                name + " files are never compressed; leave --compress out, or write .espalier");
  }
  if (is_sharded(options)) {
    if (auto ok = check_sharded(target, *format, options); !ok) return propagate(ok);
  }
  if (holds_one_tensor(*format) && options.unrepresentable == "metadata") {
    return fail(ErrorCode::kInvalidArgument,
                name + " files have no metadata; use --unrepresentable=drop");
  }
  return format;
}

tl::expected<Written, Failure> write_file(const Route& route, SaveFormat format, const Value& state,
                                          Value metadata, const TargetOptions& options,
                                          const CommonOptions& common, const Against& against) {
  const std::vector<std::string> replaced = replaced_files(route.target, options);
  for (const std::string& target : replaced) {
    auto ok = check_not_needed(Route{route.source, target}, options, common, replaced);
    if (!ok) return tl::unexpected<Failure>(std::move(ok.error()));
  }
  const int level = compression_level(options).value_or(kNoCompression);  // target_format() checked
  Written written;
  written.route = route;
  Result<Losses> saved;
  {
    MeasuringOps ops;
    ProgressBar progress("writing");
    if (options.no_metadata) metadata = Value::dict();
    ShardOptions shards;
    if (format == SaveFormat::kSafetensors) {
      ModelMetadata model = model_metadata(metadata);
      // One file has no index for the rest.
      if (is_sharded(options) || model.of_index.children().empty()) {
        metadata = std::move(model.of_each_file);
        shards.index_metadata = std::move(model.of_index);
      }
    }
    const SaveOptions save_options{
        .metadata = std::move(metadata),
        .sync = !options.no_sync,
        .replace = options.force,
        .threads = common.threads,
        .compression_level = level,
        .check_ending = false,  // --to decides
        .carry = false,         // who trusts the exit code wants every byte checked
        .bases = against.bases,
        .patches = against.patches,
        .most_of_full = against.most_of_full,
        .progress = progress.callback(),
        .ops = &ops};
    saved = save_any(route.target, format, state, options, save_options, std::move(shards),
                     against.references, written);
    written.stopped_by = ops.stopped_by();
    if (!is_sharded(options)) written.bytes = ops.length();
  }
  if (written.stopped_by != 0) return written;
  if (!saved) {
    ErrorCode& code = saved.error().code;
    // Only the save finds a name that ends with a slash, and a link to a file that has no name.
    if (code == ErrorCode::kNotARegularFile) code = ErrorCode::kInvalidArgument;
    // Other kUnrepresentable errors are about sizes, and the option does not help.
    std::string& message = saved.error().message;
    if (message.ends_with(kUnrepresentableHint)) {
      message.resize(message.size() - kUnrepresentableHint.size());
      message +=
          "; --unrepresentable=metadata carries the whole tree in the file's metadata, and "
          "--unrepresentable=drop leaves out what does not fit";
      // The path is that of the first such value, and those of the state come first.
      if (saved.error().path.starts_with("(metadata)/")) {
        message += "; only metadata does not fit, so --no-metadata helps, too";
      }
    }
    if (saved.error().file == route.target) saved.error().file.clear();
    const bool is_of_input = exit_code(code) == ExitCode::kBadInput || !saved.error().file.empty();
    if (!is_of_input) return about(route.target, saved);
    std::string file = std::exchange(saved.error().file, {});
    if (route.source.empty()) return about(std::move(file), saved);
    if (file != route.source) saved.error().file = std::move(file);
    return about(route.source, saved);
  }
  written.left_out = std::move(*saved);
  return written;
}

ExitCode exit_code(const Written& written) {
  return written.is_incomplete ? ExitCode::kIncomplete : ExitCode::kOk;
}

void print_written(Output& out, const Written& written) {
  out.print("{}: ", escaped(written.route.target));
  if (!written.shards.empty()) out.print("{}, ", counted(written.shards.size(), "file"));
  out.print("{} written", format_size(written.bytes));
  if (!written.dtype.empty()) out.print(", {} {}", written.dtype, shape_text(written.shape));
  if (written.is_incomplete) {
    out.print(", {}", out.colors().paint(Style::kDamage, "INCOMPLETE"));
  }
  out.put('\n');
  if (!written.left_out.empty()) {
    out.print("not kept: {}\n", escaped(written.left_out.to_string()));
  }
}

void write_written_members(JsonWriter& json, const Written& written) {
  json.member("file", shown_name(written.route.source));
  json.member("written", written.route.target);
  json.member("bytes", written.bytes);
  json.member("left_out", written.left_out.count());
  json.member("incomplete", written.is_incomplete);
  if (!written.shards.empty()) {
    json.key("shards");
    json.begin_array();
    for (const std::string& name : written.shards) json.value(name);
    json.end_array();
  }
  if (written.dtype.empty()) return;
  json.member("dtype", written.dtype);
  json.key("shape");
  json.begin_array();
  for (const std::uint64_t axis : written.shape) json.value(axis);
  json.end_array();
}

}  // namespace espalier::cli
