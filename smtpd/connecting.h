#pragma once
/// Connects to a helper of smtpd (a filter, a policy server); its host may be a name.
///
/// Use:     auto stream = co_await connect_to(loop, names, settings.address, settings.families, until);
/// Names:   looked up for each connection, by smtpd's own resolver. Of the addresses those of the families are tried,
///          one after the other (lib/net/helper/reach.h).
/// Errors:  a sentence part for the log.
/// Thread:  the loop's.
#include <expected>
#include <string>

#include "lib/base/async/stream.h"
#include "lib/net/helper/server_address.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// until must have a deadline.
async::Task<std::expected<async::Stream, std::string>> connect_to(async::Loop& loop, Names& names,
                                                                  helper::ServerAddress to, Families families,
                                                                  async::Until until);

}  // namespace pen::smtpd
