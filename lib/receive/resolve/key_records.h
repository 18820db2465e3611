#pragma once
/// Key records of DKIM in DNS, and the watch for those of keys that sign from a date on (lib/trust/signing/rotation.h).
///
/// Use:     auto answer = co_await key_answer(resolver, "s._domainkey.example.org");
///          watch_key_records(loop, signing, name_servers, cancel, say);     // no more than that; no dates: nothing
/// Thread:  the loop's. loop and cancel outlive the watch, which ends with cancel.
#include <memory>
#include <string>

#include "lib/net/dns.h"
#include "lib/trust/dkim/verify.h"
#include "lib/trust/signing/rotation.h"

namespace pen::resolve {

async::Task<dkim::KeyAnswer> key_answer(net::Resolver& resolver, std::string name);

void watch_key_records(async::Loop& loop, std::shared_ptr<const signing::Signing> signing,
                       net::ResolverOptions name_servers, async::Cancel& cancel, signing::SayOfKeys say);

}  // namespace pen::resolve
