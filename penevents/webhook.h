#pragma once
/// One batch of events for a web server: its body and its signature.
///
/// Use:     const Batch batch = make_batch(lines);       // JSON lines, as in the backlog
///          auto fields = batch_fields(batch, secret, now);
/// Form:    the body is a JSON array. X-Penstock-Batch names it by the ids of its first and last event: a batch that
///          is sent again has the same name. X-Penstock-Signature is "sha256=" and the HMAC in hexadecimal digits over
///          timestamp, ".", batch, ".", body.
/// Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen::penevents {

struct Batch {
  std::string id, body;
  std::size_t events = 0;
};
Batch make_batch(std::string_view lines);
/// secret empty: without a signature.
std::vector<std::string> batch_fields(const Batch& batch, std::string_view secret, WallTime now);
std::string signature(std::string_view secret, std::string_view timestamp, std::string_view batch,
                      std::string_view body);
/// After so many failures in a row.
milliseconds back_off(unsigned failures, milliseconds least, milliseconds most);

}  // namespace pen::penevents
