// Checks KEDA's objects among those read from standard input (a JSON array) against the schemas of KEDA's own definitions
// that @kubernetes-models/keda carries. Exits with 1 at the first that does not fit, or when there is none.
const { ScaledObject } = require("@kubernetes-models/keda/keda.sh/v1alpha1");
const objects = JSON.parse(require("fs").readFileSync(0, "utf8")).filter((one) => one.kind === "ScaledObject");
if (objects.length === 0) throw new Error("there is no ScaledObject");
for (const object of objects) {
    new ScaledObject(object).validate();
    console.log(`INFO ScaledObject ${object.metadata.name} passed`);
}
