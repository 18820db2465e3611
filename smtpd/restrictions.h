#pragma once
/// The restrictions: one function for each row of restrictions.def, with the row's name, in the checks_*.cc of its
/// kind; and what the kinds have from each other. Each works on an Evaluation: it permits, refuses, or leaves the
/// question to the next one. `about` is the subject of the list: replies name it unless the restriction has one of
/// its own.
///
/// Adding:  docs/smtpd.md, "How to add".
#include <type_traits>

#include "smtpd/access.h"
#include "smtpd/evaluation.h"

namespace pen::smtpd::restrictions {

using Answer = Evaluation::Answer;
using Name = Evaluation::Name;
/// A task where the row says that the restriction may have to wait.
template <config::Waits waits>
using AnswerOf = std::conditional_t<waits == config::Waits::never, Answer, async::Task<Answer>>;

#define PEN_RESTRICTION(name, argument, waits, relaying) \
  AnswerOf<config::Waits::waits> name(Evaluation& e, const Restriction& r, const Name& about);
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
async::Task<Answer> restriction_class(Evaluation& e, const Restriction& r, const Name& about);
Answer unsupported(Evaluation& e, const Restriction& r, const Name& about);
Answer unknown(Evaluation& e, const Restriction& r, const Name& about);

// checks_access.cc: tables and their actions.
[[gnu::noinline]] async::Task<map::AddressValue> look_up(Evaluation& e, map::MapList maps, std::string key);
/// Acts on what r's tables returned for `name`.
[[gnu::noinline]] async::Task<Answer> act_on(Evaluation& e, const map::AddressValue& found, const Restriction& r,
                                             Name name);
/// A stranger's choice of a name must permit nothing.
Answer never_permit(Evaluation& e, Answer answer, const Restriction& r, std::string_view target);

// checks_address.cc: where addresses lead.
/// The domain of an address; a host name is its own.
std::string_view host_of(std::string_view address);
async::Task<Result<resolve::AddressClass>> class_of(Evaluation& e, std::string_view domain);
/// Whether the recipient is in a domain of ours and has no local part that routes elsewhere (user%there@here,
/// "user@there"@here): such mail must not be accepted from strangers.
[[gnu::noinline]] async::Task<Result<bool>> authorized_destination(Evaluation& e);
/// Whether the local part may hold a route to another host, so that the domain alone permits nothing.
bool routed_elsewhere(const Evaluation& e, std::string_view address);
/// Refuses an address of a class of ours that its tables do not list.
[[gnu::noinline]] async::Task<Answer> unlisted(Evaluation& e, std::string given, Name name, bool sender);

// checks_verify.cc
/// An address that probes come from, our own: it must be possible to ask back about it.
bool sends_probes(const Evaluation& e, std::string_view address);

// checks_dns_lists.cc
/// Asks all lists that are about this recipient, at once.
void ask_ahead_of_recipient(Evaluation& e);

// checks_authentication.cc
/// What the policy of the content's author asks, by the settings.
Answer author(Evaluation& e);

// checks_suppression.cc
/// Refuses a recipient of the suppression list.
[[gnu::noinline]] async::Task<Answer> suppressed(Evaluation& e);

}  // namespace pen::smtpd::restrictions
