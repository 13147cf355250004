// Connections to web servers through libcurl.
#ifndef ESPALIER_LIBCURL_CURL_TRANSFER_H_
#define ESPALIER_LIBCURL_CURL_TRANSFER_H_

#include "espalier/error.h"
#include "http/transfer.h"

namespace espalier::http {

/// What makes transfers that obey the environment variables of proxies (http_proxy, https_proxy,
/// no_proxy) and SSL_CERT_FILE. kInvalidArgument if there is no libcurl: see curl_functions.h.
Result<MakeTransfer> curl_transfers();

}  // namespace espalier::http

#endif  // ESPALIER_LIBCURL_CURL_TRANSFER_H_
