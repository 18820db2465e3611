#pragma once
/// What would come of mail to some addresses, for sendmail -bv: nothing is delivered, and no other host asked.
///
/// Use:     auto found = probe(resolve, envelope, now);   // one entry for each address that it leads to
/// Result:  delivered: there is a way, which the text names. failed: it would come back, and why. deferred: it would wait.
/// Errors:  a table that cannot be read now. Blocking where a table is (Resolve::blocking()): from a handler thread.
/// Source:  Postfix sendmail(1) -bv, ADDRESS_VERIFICATION_README; a message to a local name goes where local(8) finds.
#include <vector>

#include "lib/base/result.h"
#include "lib/mail/dsn.h"
#include "lib/resolve/resolve.h"

namespace pen::pickup {

/// envelope: sender and recipients as they were given.
Result<std::vector<mail::DsnRecipient>> probe(const resolve::Resolve& resolve,
                                              mail::Envelope envelope, WallTime now);

}  // namespace pen::pickup
