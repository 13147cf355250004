// Reads checkpoints from web servers, in part.
//
//   auto url = http::parse_url("https://host/run.espalier");
//   if (!url) return report(url.error());
//   auto source = http::open_url(*url, *curl_transfers());
//   if (!source) return report(source.error());
//   auto file = CheckpointFile::open(*source);
//
// The first request fetches the first MiB, which is enough to open most files, and tells the
// length. Later ones fetch only the bytes that are read. Redirects are followed. credentials.h says
// which credentials are sent where.
#ifndef ESPALIER_HTTP_HTTP_SOURCE_H_
#define ESPALIER_HTTP_HTTP_SOURCE_H_

#include <memory>

#include "espalier/error.h"
#include "espalier/source.h"
#include "http/http_file.h"
#include "http/url.h"

namespace espalier::http {

/// Opens the file at `url`. Its version is pinned: reads fail with kFileChanged if the server
/// reports another one. Errors are those of HttpFile::open(); reads also return kIoError and
/// kFileNotFound, because a server may fail at any time.
[[nodiscard]] Result<std::shared_ptr<const Source>> open_url(const Url& url,
                                                             const MakeTransfer& make_transfer,
                                                             const HttpOptions& options = {});

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_HTTP_SOURCE_H_
