// The checkpoints that `view` serves.
#ifndef ESPALIER_CLI_VIEW_SERVED_FILES_H_
#define ESPALIER_CLI_VIEW_SERVED_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/opening/command.h"
#include "serve/site.h"

namespace espalier::cli {

/// A file, as files.json describes it to the page.
struct ServedFile {
  std::string name;  // without its folder, unless that alone tells it from others; any bytes
  std::string url;   // relative to the page: "files/0/run.espalier"
  std::uint64_t size = 0;
};

/// Opens `files`, checks that each is a checkpoint unless `force`, and adds them to `site`,
/// together with the further files of its checkpoint and "files.json", the list of `files`. Those
/// in folders below are opened for each request, without following links. Errors are those of
/// open_file().
tl::expected<std::vector<ServedFile>, Failure> add_files(serve::Site& site,
                                                         const std::vector<std::string>& files,
                                                         bool force);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEW_SERVED_FILES_H_
