#include "local/environment.h"

#include <paths.h>

#include "lib/base/idn/fold.h"
#include "lib/mail/address.h"
#include "lib/mail/client_attributes.h"

namespace pen::local {

mailbox::Values delivery_values(const CommandFacts& facts) {
  const std::string& address = facts.recipient->address;
  mailbox::Values values = {
      {"user", facts.user},
      {"local", idn::fold(mail::unquote_local(mail::local_part(address)))},
      {"mailbox", std::string(mail::local_part(address))},
      {"extension", facts.extension},
      {"domain", std::string(mail::domain_part(address))},
      {"recipient", address},
      {"recipient_delimiter", facts.delimiter ? std::string(1, facts.delimiter) : ""},
  };
  if (facts.account != nullptr) {
    values.emplace_back("home", facts.account->home);
    values.emplace_back("shell", facts.account->shell);
  }
  return values;
}

std::vector<std::string> command_environment(const CommandFacts& facts, const std::vector<std::string>& exported,
                                             std::string_view filter) {
  std::vector<std::string> out = exported;
  out.emplace_back("PATH=" _PATH_DEFPATH);
  const auto put = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) out.push_back(std::string(name) + "=" + mailbox::filtered(value, filter));
  };
  if (facts.account != nullptr) {
    out.push_back("HOME=" + facts.account->home);
    if (!facts.account->shell.empty()) out.push_back("SHELL=" + facts.account->shell);
  }
  put("LOGNAME", facts.user);
  put("USER", facts.user);
  const std::string& address = facts.recipient->address;
  out.push_back("SENDER=" + mailbox::filtered(facts.sender, filter));
  put("RECIPIENT", address);
  put("ORIGINAL_RECIPIENT", facts.recipient->shown_original());
  put("LOCAL", mail::local_part(address));
  put("DOMAIN", mail::domain_part(address));
  put("EXTENSION", facts.extension);
  put("ENVID", facts.message->envid);
  const mail::Client& client = facts.message->client;
  put("CLIENT_ADDRESS", client.address);
  put("CLIENT_HELO", client.helo);
  put("CLIENT_HOSTNAME", client.name);
  put("CLIENT_PROTOCOL", std::string(mail::plain_protocol(client)));
  put("SASL_METHOD", client.sasl_method);
  put("SASL_SENDER", client.sasl_sender);
  put("SASL_USERNAME", client.sasl_username);
  return out;
}

}  // namespace pen::local
