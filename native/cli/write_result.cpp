#include "write_result.h"

#include <atomic>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "interrupt.h"
#include "json_writer.h"
#include "progress.h"
#include "text.h"

#include "espalier/native/save.h"
#include "espalier/native/save_safetensors.h"

namespace espalier::cli {

namespace {

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

Outcome print_written(Output& out, const Route& route, const CommonOptions& common,
                      std::uint64_t bytes, const Losses& dropped) {
  if (common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.member("file", route.source);
    json.member("written", route.target);
    json.member("bytes", bytes);
    json.member("left_out", dropped.count());
    json.end_object();
    out.put('\n');
  } else if (!common.quiet) {
    out.print("{}: {} written\n", escaped(route.target), format_size(bytes));
    if (!dropped.empty()) out.print("not kept: {}\n", escaped(dropped.to_string()));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_target_options(CLI::App& command, TargetOptions& options) {
  command.option_defaults()->group(kWritingGroup);
  command.add_option("--to", options.format, "The format to write")
      ->check(CLI::IsMember({"espalier", "safetensors"}).description(""))
      ->type_name("espalier|safetensors");
  command
      .add_flag("--compress", options.compress,
                "Compress tensors. --compress=LEVEL: 1 (the default) is fast; 2 to 9 suit sparse "
                "and structured tensors and are increasingly slow; 0 is none. Without this option "
                "nothing is compressed, even if the input is")
      ->type_name("");
  command
      .add_option(
          "--unrepresentable", options.unrepresentable,
          "What to do with values that safetensors cannot hold: error (the default), drop them, or "
          "metadata, which carries the tree in the file's metadata and makes the way back exact")
      ->check(CLI::IsMember({"error", "drop", "metadata"}).description(""))
      ->type_name("error|drop|metadata");
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
  if (options.force) return {};
  const auto itself = std::filesystem::symlink_status(target, error);
  if (std::filesystem::is_symlink(itself)) {
    return fail(ErrorCode::kInvalidArgument,
                "this is a symbolic link; --force writes to the file that it names");
  }
  if (!std::filesystem::exists(itself)) return {};
  return fail(ErrorCode::kInvalidArgument, "the file exists; --force replaces it");
}

Result<FileFormat> target_format(const std::string& target, const TargetOptions& options,
                                 std::optional<FileFormat> fallback) {
  const auto level = compression_level(options);
  if (!level) return propagate(level);
  const std::string extension = std::filesystem::path(target).extension().string();
  const std::string name =
      options.format.empty() ? extension.substr(!extension.empty()) : options.format;
  for (const FileFormat format : {FileFormat::kEspalier, FileFormat::kSafetensors}) {
    if (name == format_name(format)) fallback = format;
  }
  if (fallback == FileFormat::kSafetensors && *level != kNoCompression) {
    return fail(ErrorCode::kInvalidArgument,
                "safetensors files are never compressed; leave --compress out, or write .espalier");
  }
  if (fallback) return *fallback;
  return fail(
      ErrorCode::kInvalidArgument,
      "the name does not select a format; end it with .espalier or .safetensors, or pass --to");
}

Outcome write_file(Output& out, const Route& route, FileFormat format, const Value& state,
                   Value metadata, const TargetOptions& options, const CommonOptions& common) {
  const int level = compression_level(options).value_or(kNoCompression);  // target_format() checked
  Result<Losses> saved;
  int stopped_by = 0;
  std::uint64_t length = 0;
  {
    MeasuringOps ops;
    ProgressBar progress("writing");
    const SaveOptions save_options{
        .metadata = options.no_metadata ? Value::dict() : std::move(metadata),
        .sync = !options.no_sync,
        .replace = options.force,
        .threads = common.threads,
        .compression_level = level,
        .progress = progress.callback(),
        .ops = &ops};
    if (format == FileFormat::kSafetensors) {
      saved = save_safetensors(route.target, state, policy_of(options), save_options);
    } else if (auto ok = save(route.target, state, save_options); !ok) {
      saved = propagate(ok);
    }
    stopped_by = ops.stopped_by();
    length = ops.length();
  }
  if (stopped_by != 0) return ended_by(stopped_by);
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
    }
    const bool from_source = exit_code(code) == ExitCode::kBadInput;
    return about(from_source ? route.source : route.target, saved);
  }
  return print_written(out, route, common, length, *saved);
}

}  // namespace espalier::cli
