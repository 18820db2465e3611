#include "smtpd/standing.h"

#include <optional>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::smtpd {

async::Task<Standing> Standing::look_up(Server& server, const Policy& policy, const config::Settings& settings,
                                        Peer& peer) {
  struct Found {
    Result<bool> trusted = false;
    bool may_xclient = false, may_xforward = false, may_verp = false, unlimited = false, no_auth = true, local = false;
    bool bare_newline = false;
    map::Value discarded;
  };
  const Found found = co_await server.intake.tables.ask([&policy, &peer, by_token = AuthPolicy::by_token(settings)] {
    const auto is_in = [&](const map::MatchList& list, bool when_unknown = false) {
      return list.matches_host(peer.name, peer.address).value_or(when_unknown);
    };
    Found out;
    if (peer.address != kUnknownAddress) {
      out.trusted = policy.mynetworks.matches_address(peer.address);
      out.local = policy.local_rewrite_addresses.matches_address(peer.address).value_or(false);
    }
    // With tokens this process decides who a client is. The word of another program, and of one that claims to be at
    // such an address, would be a login without a token.
    out.may_xclient = !by_token && is_in(policy.xclient_hosts);
    out.may_xforward = !by_token && is_in(policy.xforward_hosts);
    out.may_verp = is_in(policy.verp_clients);
    out.unlimited = is_in(policy.event_limit_exceptions);
    out.no_auth = is_in(policy.auth.exceptions, true);
    out.bare_newline = is_in(policy.bare_newline_exclusions);
    if (!policy.discarded_by_client.empty()) out.discarded = policy.discarded_by_client.lookup(peer.address);
    return out;
  });
  if (!found.trusted) log::warning("mynetworks: {}", found.trusted.error().message());
  peer.trusted = found.trusted ? std::optional(*found.trusted) : std::nullopt;
  Standing standing{.may_xclient = found.may_xclient,
                    .may_xforward = found.may_xforward,
                    .may_verp = found.may_verp,
                    .unlimited = found.unlimited,
                    .no_auth = found.no_auth,
                    .local = found.local};
  const auto bare_newline = settings.smtpd_forbid_bare_newline;
  standing.any_end_of_data = bare_newline == config::BareNewline::no || found.bare_newline;
  standing.forbid_bare_newline = bare_newline == config::BareNewline::reject && !standing.any_end_of_data;
  if (!found.discarded)
    log::warning("smtpd_discard_ehlo_keyword_address_maps: {}", found.discarded.error().message());
  else if (*found.discarded)
    standing.discarded = std::make_unique<DiscardedKeywords>(policy.discard(split_list(**found.discarded)));
  co_return standing;
}

}  // namespace pen::smtpd
