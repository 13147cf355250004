// Opens a checkpoint on a web server, with its further files.
#ifndef ESPALIER_HTTP_HTTP_CHECKPOINT_H_
#define ESPALIER_HTTP_HTTP_CHECKPOINT_H_

#include <memory>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/source.h"
#include "http/http_file.h"
#include "http/url.h"

namespace espalier::http {

/// Opens the checkpoint in `source`, which open_url() made of `url`. Its further files lie beside
/// it, and are opened with the same options: they have the first file's rules, credentials and
/// headers. `options.threads.count` of 0 is 8, because the threads mostly wait for the network.
[[nodiscard]] Result<CheckpointFile> open_checkpoint(const Url& url,
                                                     std::shared_ptr<const Source> source,
                                                     const MakeTransfer& make_transfer,
                                                     const HttpOptions& http_options,
                                                     OpenFileOptions options);

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_HTTP_CHECKPOINT_H_
