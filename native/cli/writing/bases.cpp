#include "cli/writing/bases.h"

#include <cstdint>
#include <filesystem>

#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/writing/write_result.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

// Which files `checkpoint`, of an Espalier file, needs, and how much lies there or is patched.
void print_references(Output& out, const Checkpoint& checkpoint, std::string_view alone) {
  const auto files = checkpoint.catalog().files();
  if (files.size() < 2) {
    out.write(alone);
    return;
  }
  std::uint64_t here = 0;
  std::uint64_t there = 0;
  std::uint64_t patched = 0;
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const TensorRef tensor = checkpoint.tensor(i);
    if (tensor.is_placeholder()) continue;
    const auto chunks = table_chunks(checkpoint.catalog().tables(), i);
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      (chunks[k].file == 0 ? here : there) += chunks[k].stored;
      if (chunks[k].is_patch()) patched += chunk_length(tensor.bytes(), k);
    }
  }
  const std::string others =
      files.size() == 2 ? escaped(files[1].name) : counted(files.size() - 1, "other file");
  if (there > 0 || patched == 0) {
    out.print("{} of tensors lie in {}, {} here\n", format_size(there), others, format_size(here));
  }
  if (patched > 0) {
    out.print("{} of tensors are patches of what lies in {}\n", format_size(patched), others);
  }
}

}  // namespace

Result<OpenBase> open_base(const std::string& path, const std::string& target,
                           const CommonOptions& options) {
  if (is_url(path)) {
    return fail(ErrorCode::kInvalidArgument,
                "a file on this machine cannot refer to a URL; download it first");
  }
  return espalier::open_base(path, target, [&](const std::filesystem::path& file) {
    return open_file(file.string(), options);
  });
}

void add_base_option(CLI::App& command, BaseOptions& options) {
  command
      .add_option("--base", options.names,
                  "A checkpoint in the folder of OUT: each chunk (1 MiB of a tensor) that is equal "
                  "there is referred to in place of being written, and one that changed a little "
                  "is written as its differences. OUT needs BASE, and what BASE needs, from then "
                  "on. For .espalier; may be repeated")
      ->type_name("BASE")
      ->allow_extra_args(false)
      ->group(kWritingGroup);
}

void add_patch_options(CLI::App& command, BaseOptions& options) {
  command
      .add_flag("--only-references", options.only_references,
                "Write chunks that changed as they are, and not as their differences to the base. "
                "OUT is larger, and reading it never takes more than one read for a chunk")
      ->group(kWritingGroup);
  command
      .add_option("--most", options.most_percent,
                  "Write OUT whole, without the base, if it would take more than this part of "
                  "that: 60 % unless you say otherwise")
      ->type_name("PERCENT")
      ->check(CLI::Range(0, 100).description(""))
      ->group(kWritingGroup);
}

Outcome report_with_needs(Output& out, const Written& written, const CommonOptions& options,
                          std::string_view alone) {
  if (written.stopped_by != 0) return ended_by(written.stopped_by);
  const auto made = open_file(written.route.target, options);
  if (options.json) {
    JsonWriter json(out);
    json.begin_object();
    write_written_members(json, written);
    json.key("needs");
    json.begin_array();
    if (made) {
      for (const FileEntry& file : made->checkpoint().catalog().files()) {
        if (!file.name.empty()) json.value(std::string_view(file.name));
      }
    }
    json.end_array();
    json.end_object();
    out.put('\n');
  } else if (!options.quiet) {
    print_written(out, written);
    if (made) print_references(out, made->checkpoint(), alone);
  }
  return ExitCode::kOk;
}

Against against(const BaseOptions& options, const std::vector<OpenBase>& bases) {
  return {bases_of(bases), !options.only_references, options.most_percent / 100.0};
}

}  // namespace espalier::cli
