#pragma once
/// PROGRAM --look: what would keep a service from starting, without starting it, and which settings' tables it opens.
///
/// Use:     if (arguments.look) return look(options, arguments);           // in run(): the process ends with it
/// Output:  lines on standard output: "unreadable TEXT", for each value that cannot be read, the default is taken in
///          its place; "error TEXT", what start() would end with; "opens SETTING", for each setting whose table is
///          opened; "undeclared SETTING", for one that is opened although its row in params.def does not list the
///          program. Warnings go to standard error.
/// Status:  EX_OK, or EX_CONFIG with an error, an unreadable value or an undeclared setting.
/// For:     penstock check, which goes through all services of master.cf; tests/integration/test_readers.py.
#include "lib/suite/service/service.h"

namespace pen::service {

int look(const Options& options, const Arguments& arguments);

/// From now on this process opens tables of those settings only that list the program as a reader in params.def.
/// Before any other thread is started.
void open_own_tables_alone(const std::string& program);
/// Tables can use main.cf: proxy_read_maps, parameters of the old form mysql:name. The context must outlive all tables.
void let_tables_ask(const Context& context);

}  // namespace pen::service
