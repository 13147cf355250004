#include "espalier/foreign/any_archive.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "espalier/foreign/formats.h"
#include "espalier/foreign/unknown_format.h"

namespace espalier {
namespace {

constexpr std::string_view kExported =
    "it is a program of torch.export (.pt2), which is not read; save the state_dict of its module "
    "with espalier.save() where it was made";
constexpr std::string_view kMediaPipe =
    "it is a task of MediaPipe (.task) with models of TensorFlow Lite; unpack it first: unzip FILE";

struct OtherArchive {
  std::string_view name_end;
  std::string_view what;
};
// The first one whose name an entry has counts.
constexpr OtherArchive kOtherArchives[] = {
    {"model.weights.h5",
     "it is a Keras model (.keras) without its config.json, or this program does not open it; "
     "unpack "
     "it (unzip FILE) and open model.weights.h5"},
    {"serialized_exported_program.json", kExported},
    {"archive_format", kExported},
    {".tflite", kMediaPipe},
    {"TF_LITE_PREFILL_DECODE", kMediaPipe},
    {".dist-info/WHEEL", "it is a Python wheel; install it with pip"},
    {"[Content_Types].xml", "it is an office document"},
    {".npy",
     "it is a zip archive with .npy arrays beside other files; unpack it first: unzip FILE"},
    {"", "it is a zip archive; unpack it first: unzip FILE"},
};

}  // namespace

Result<std::unique_ptr<ContentReader>> choose_content_reader(const ZipDirectory& directory) {
  for (const ArchiveKind& kind : archive_kinds()) {
    if (kind.is_in(directory)) return kind.make();
  }
  const auto entries = directory.entries();
  const auto* stranger = std::find_if(
      std::begin(kOtherArchives), std::end(kOtherArchives), [&](const OtherArchive& candidate) {
        return candidate.name_end.empty() ||
               std::any_of(entries.begin(), entries.end(), [&](const ZipEntry& entry) {
                 return entry.name.ends_with(candidate.name_end);
               });
      });
  return fail(ErrorCode::kNotACheckpoint, unknown_format(stranger->what), 0);
}

}  // namespace espalier
