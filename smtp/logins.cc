#include "smtp/logins.h"

#include <array>

#include "lib/base/base64.h"
#include "lib/base/random.h"
#include "lib/base/text.h"

namespace pen::smtp {

Result<std::shared_ptr<Logins>> Logins::open(const config::Settings& s, bool lmtp, async::Loop& loop) {
  const config::ClientSettings& client = s.client(lmtp);
  const bool enabled = client.sasl_auth_enable;
  const std::string name = lmtp ? "lmtp_sasl_" : "smtp_sasl_";
  const auto& tables = client.sasl_password_maps;
  if (!enabled || tables.empty()) return nullptr;
  const std::shared_ptr<Logins> logins(new Logins(loop));
  const map::OpenOptions open{.default_type = s.default_database_type};
  auto maps = map::MapList::open(join(tables), open.of(name + "password_maps"));
  if (!maps) return fail(std::move(maps).error().within(name + "password_maps"));
  logins->maps_ = *std::move(maps);
  logins->delimiter_ = client.sasl_password_result_delimiter;
  logins->usual_.defer_refused = client.sasl_auth_soft_bounce;
  const auto options = [&](sasl::SecurityOptions& into, const std::vector<std::string>& words,
                           const char* which) -> Result<void> {
    auto parsed = sasl::SecurityOptions::parse(words);
    if (!parsed) return fail(std::move(parsed).error().within(name + which));
    into = *parsed;
    return {};
  };
  PEN_TRY(options(logins->usual_.clear, client.sasl_security_options, "security_options"));
  PEN_TRY(options(logins->usual_.secured, client.sasl_tls_security_options, "tls_security_options"));
  PEN_TRY(options(logins->verified_, client.sasl_tls_verified_security_options, "tls_verified_security_options"));
  const auto& filter = client.sasl_mechanism_filter;
  if (!filter.empty()) {
    auto list =
        map::MatchList::open(map::MatchList::Kind::string, join(filter), {.open = open.of(name + "mechanism_filter")});
    if (!list) return fail(std::move(list).error().within(name + "mechanism_filter"));
    logins->usual_.filter = std::make_shared<const map::MatchList>(*std::move(list));
  }
  return logins;
}

async::Task<Result<Login>> Logins::find(std::string key, bool verified) {
  auto value = co_await tables_.ask([&] { return maps_.lookup(key); });
  if (!value) co_return fail(std::move(value).error().within("look-up of the password"));
  if (!*value || (*value)->empty())
    co_return fail(sasl::SaslError::bad_setting,
                   "the entry for \"" + printable(key, 200) + "\" has gone from the password table");
  Login login = usual_;
  if (verified) login.secured = verified_;
  const std::string& text = **value;
  const auto at = delimiter_.empty() ? std::string::npos : text.find_first_of(delimiter_);
  login.credentials.user = text.substr(0, at);
  if (at != std::string::npos) login.credentials.password = text.substr(at + 1);
  std::array<std::byte, 18> bytes;
  secure_random_bytes(bytes);
  login.nonce = base64_encode(as_text(bytes));
  co_return login;
}

}  // namespace pen::smtp
