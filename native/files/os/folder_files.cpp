#include "files/os/folder_files.h"

#include <system_error>
#include <utility>

#include "files/os/posix.h"

namespace espalier {

Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder) {
  if (auto ok = check_no_nul(folder); !ok) return propagate(ok);
  std::vector<std::string> names;
  std::error_code error;
  // The standard library does not try again after a signal.
  do {
    error.clear();
    names.clear();
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
  } while (error == std::errc::interrupted);
  if (error) return fail_with_errno(error.value(), "list the folder " + folder.string());
  return names;
}

}  // namespace espalier
