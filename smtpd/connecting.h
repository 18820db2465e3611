#pragma once
/// Connects to a helper of smtpd (a filter, a policy server), whose host may be a name.
///
/// Use:     auto stream = co_await connect_to({.loop = …, .names = …}, {.address = …, .host = …}, until);
/// Names:   looked up for each connection. Of its addresses kMaxAddresses are tried; each gets a part of what is left
///          of the one time-out.
/// Errors:  a sentence part for the log.
/// Thread:  the loop's.
#include <expected>
#include <string>

#include "lib/async/stream.h"
#include "smtpd/names.h"

namespace pen::smtpd {

struct HelperAddress {
  async::SocketAddress address;  // with a host: only its port counts
  std::string host;              // a name; empty: the address is numeric or a path
  Families families;
};

inline constexpr std::size_t kMaxAddresses = 5;

/// until must have a deadline.
async::Task<std::expected<async::Stream, std::string>> connect_to(async::Loop& loop, Names& names, HelperAddress to,
                                                                  async::Until until);

}  // namespace pen::smtpd
