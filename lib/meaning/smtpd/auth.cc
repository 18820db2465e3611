#include "lib/meaning/smtpd/auth.h"

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/config/findings.h"
#include "lib/mail/address.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/logins.h"

namespace pen::smtpd {

namespace {

// What a response is in a line besides: the word and the number, or what is told with the first one.
constexpr std::size_t kAroundResponse = 2048;

}  // namespace

bool Login::may_send_as(std::string_view sender) const {
  if (!senders) return true;
  return std::ranges::any_of(*senders, [&](const std::string& one) {
    if (one == "<>") return sender.empty();
    if (one.starts_with('@')) return idn::same_domain(mail::domain_part(sender), std::string_view(one).substr(1));
    return idn::same_address(one, sender);
  });
}

bool AuthPolicy::available(const config::Settings& s) {
  return s.smtpd_sasl_auth_enable &&
         (iequals(s.smtpd_sasl_type, "dovecot") || config::asks_login_program(s) || config::asks_tokens(s));
}

bool AuthPolicy::by_token(const config::Settings& s) { return config::asks_tokens(s); }

Result<std::optional<sasl::DovecotService::Peer>> AuthPolicy::service(const config::Config& config) {
  const config::Settings& s = config.settings();
  if (config::asks_login_program(s)) {
    const auto socket = config::cyrus_socket(config);
    if (!socket) return std::nullopt;
    const std::string path = s.queue_directory + "/" + *socket;
    return sasl::DovecotService::Peer{
        .address = {.path = path, .host = {}, .port = 0},
        .max_line = static_cast<std::size_t>(s.smtpd_sasl_response_limit) + kAroundResponse,
        .application =
            sasl::dovecot::Application{
                .name = s.smtpd_sasl_path, .realm = s.smtpd_sasl_local_domain, .host = s.myhostname},
        .connect = [path](async::Loop& loop, async::Until until) {
          return ipc::connect_stream(loop, path, std::string(ipc::logins::kName), until);
        }};
  }
  auto address = sasl::parse_service(s.smtpd_sasl_path, s.queue_directory);
  if (!address) return fail(std::move(address).error().within("smtpd_sasl_path"));
  return sasl::DovecotService::Peer{.address = *std::move(address)};
}

std::string AuthPolicy::unavailable(const config::Config& config) { return config::no_login(config); }

Result<AuthPolicy> AuthPolicy::open(const config::Settings& s, const map::OpenOptions& open) {
  AuthPolicy auth;
  auto logins = map::MapList::open(join(s.smtpd_sender_login_maps), open.of("smtpd_sender_login_maps"));
  if (!logins) return fail(std::move(logins).error().within("smtpd_sender_login_maps"));
  auth.sender_logins = *std::move(logins);
  auth.enabled = available(s);
  if (!auth.enabled) return auth;
  const auto options = [](sasl::SecurityOptions& into, const std::vector<std::string>& words,
                          const char* name) -> Result<void> {
    auto parsed = sasl::SecurityOptions::parse(words);
    if (!parsed) return fail(std::move(parsed).error().within(name));
    into = *parsed;
    return {};
  };
  PEN_TRY(options(auth.clear, s.smtpd_sasl_security_options, "smtpd_sasl_security_options"));
  PEN_TRY(options(auth.secured, s.smtpd_sasl_tls_security_options, "smtpd_sasl_tls_security_options"));
  const auto list = [&](map::MatchList& into, map::MatchList::Kind kind, const std::vector<std::string>& items,
                        const char* name) -> Result<void> {
    auto opened = map::MatchList::open(kind, join(items),
                                       {.parent_domains = list_contains(join(s.parent_domain_matches_subdomains), name),
                                        .open = open.of(name),
                                        .keep_faulty = true});  // such a client is not offered AUTH
    if (!opened) return fail(std::move(opened).error().within(name));
    into = *std::move(opened);
    return {};
  };
  using Kind = map::MatchList::Kind;
  PEN_TRY(list(auth.mechanism_filter, Kind::string, s.smtpd_sasl_mechanism_filter, "smtpd_sasl_mechanism_filter"));
  PEN_TRY(list(auth.exceptions, Kind::host, s.smtpd_sasl_exceptions_networks, "smtpd_sasl_exceptions_networks"));
  return auth;
}

std::vector<std::string> AuthPolicy::offered(const std::vector<sasl::Mechanism>& mechanisms, bool is_secured) const {
  std::vector<std::string> names;
  for (const auto& mechanism : mechanisms) {
    if (!(is_secured ? secured : clear).allow(mechanism.properties)) continue;
    // An empty list filters nothing, as for every list of this kind in Postfix.
    if (!mechanism_filter.empty() && !mechanism_filter.matches(mechanism.name).value_or(false)) continue;
    names.push_back(mechanism.name);
  }
  return names;
}

}  // namespace pen::smtpd
