-- Read for the function library as it is built: one chunk of all files of server/functions.
std = "lua51"
globals = {"redis", "cjson", "cmsgpack", "bit", "struct"}
unused_args = false -- handlers of one kind take the same arguments
max_line_length = false

-- Scripts of tests: their words are globals (tests/services/lib).
files["**/tests/services"] = {std = "lua54", global = false, ignore = {"311"}}
files["**/tests/e2e"] = files["**/tests/services"]
files["**/tests/quorum"] = files["**/tests/services"]
